"""Which settings arm a gate and make a pool, and whether a launch gives them."""
