"""What every HTTP listener needs, whatever answers behind it: bounded bodies, base path, proxies, origins."""
