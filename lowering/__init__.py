"""From a checked spec to a verified schedule."""

if __name__ != "attnspec.lowering":
    raise ImportError("import attnspec.lowering, not the bare folder name")
