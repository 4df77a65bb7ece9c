"""The console script ``voice-privacy``, and ``python -m voice_privacy``."""

from pipeline.__main__ import main as main

if __name__ == "__main__":
    main()
