"""The STOMP server: sessions, the meaning of frames and headers, and transports."""
