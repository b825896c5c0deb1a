"""The ``stele`` command: the only place, beside ``cluster`` and ``sim``, where things are wired."""
