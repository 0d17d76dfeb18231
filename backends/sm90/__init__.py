"""Hopper: H100 and H200 (sm_90a)."""
