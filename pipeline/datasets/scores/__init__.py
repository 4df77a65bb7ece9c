"""Score files: how they are read and joined to lists of trials (``score_table columns joins``), and folders of them as a data set
(``discovery score_files``). ``from-scores`` uses the first three alone, so nothing here is loaded with the package."""
