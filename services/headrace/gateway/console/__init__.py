"""The console: web pages by which people try, watch and run a platform."""
