"""Score files: how they are read and joined to lists of trials (``files layout ids joins``), and folders of them as a data set
(``folders tables given``). ``from-scores`` uses the first four alone, so nothing here is loaded with the package."""
