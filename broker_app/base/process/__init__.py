"""What a process has of its system: files and their owners, descriptors, priority, threads, tasks."""
