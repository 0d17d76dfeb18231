"""The float64 oracle; it lives in the package because `attnc run` shows it to users."""

from attnspec.runtime.oracle import Answer, Problem, Results, solve

__all__ = ["Answer", "Problem", "Results", "solve"]
