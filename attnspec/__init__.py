"""attnspec: a few lines of text become attention kernels, forward and backward."""
