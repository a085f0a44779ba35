"""The commands as they are typed: their options and their help. What they do waits in modules of its own."""
