"""What each warp of a backward kernel does; and the kernels before and after it."""
