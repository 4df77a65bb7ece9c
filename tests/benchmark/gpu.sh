#!/usr/bin/env bash
# Measures extraction, anonymisation and training on one GPU within minutes, on generated audio, without network.
#
#   tests/benchmark/gpu.sh wheels DIR     where a package index can be reached: fetch into DIR the wheels that a bare
#                                         machine with torch and torchaudio lacks (for PYTHON_VERSION, 3.12 by default)
#   tests/benchmark/gpu.sh run DIR [...]  on the GPU machine: install from DIR beside its own torch, and measure;
#                                         what follows DIR goes to tests.benchmark.gpu, for instance --out FILE
#   tests/benchmark/gpu.sh train DIR [...]
#                                         the same for the speed of training, tests.benchmark.gpu_train; with
#                                         --finetune last or all for that of fine-tuning
#   tests/benchmark/gpu.sh rehearse       anywhere: the same code on the CPU with little audio
#
# PYTHON is the interpreter, python3 by default.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}

case "${1:-}" in
wheels)
    fetch=("$python" -m pip download --quiet --only-binary :all: --python-version "${PYTHON_VERSION:-3.12}" --dest "$2")
    "${fetch[@]}" numba soundfile soxr scipy pandas pyarrow safetensors 'pydantic>=2.7' \
        hyperpyyaml sentencepiece joblib tqdm huggingface-hub requests packaging
    # By itself it would bring a torch of its own.
    "${fetch[@]}" --no-deps 'speechbrain>=1.1,<1.2'
    du -sh "$2"
    ;;
run | train)
    declare -A module=([run]=tests.benchmark.gpu [train]=tests.benchmark.gpu_train)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    "$python" -m venv --system-site-packages "$folder"
    "$folder/bin/python" -m pip install --quiet --no-index --no-deps --disable-pip-version-check "$2"/*.whl
    PYTHONPATH=. timeout 300 "$folder/bin/python" -m "${module[$1]}" "${@:3}"
    ;;
rehearse)
    exec "$python" -m tests.benchmark.gpu --rehearse
    ;;
*)
    sed -n '2,14s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
