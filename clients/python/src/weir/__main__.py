"""python -m weir: as the command `weir`."""

from weir._command import main

main()
