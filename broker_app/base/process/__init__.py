"""Files and their owners, descriptors, priority, threads and tasks: all that a process has of its system."""
