"""``stele check``: META, the catalog, fragment files and logs held against each other."""
