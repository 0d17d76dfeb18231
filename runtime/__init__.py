"""From source text to a binary, and from a binary to a callable."""

if __name__ != "attnspec.runtime":
    raise ImportError("import attnspec.runtime, not the bare folder name")
