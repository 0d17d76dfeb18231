"""From a verified schedule to source text, a target a folder."""

if __name__ != "attnspec.backends":
    raise ImportError("import attnspec.backends, not the bare folder name")
