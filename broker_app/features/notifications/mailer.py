"""Mail: one message by SMTP, in a thread, with a timeout."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Final

#: seconds for each step of an SMTP session
TIMEOUT_S: Final = 15.0
NO_TLS, STARTTLS, TLS = "none", "starttls", "tls"


@dataclass(frozen=True, slots=True)
class Mailer:
    """The SMTP server and the sender. Without a host nothing can be sent."""

    host: str | None = None
    port: int = 25
    security: str = NO_TLS
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str = "mom@localhost"

    async def send(self, to: str, subject: str, text: str) -> None:
        """Raises OSError or ValueError with a sentence if it was not accepted."""
        if self.host is None:
            raise ValueError("no mail server is configured; the setting smtp-host names one")
        message = EmailMessage()
        message["From"], message["To"] = self.sender, to
        message["Subject"] = " ".join(subject.split())[:200]
        message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain="mom.invalid")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        await asyncio.to_thread(self._send, message)

    def _send(self, message: EmailMessage) -> None:
        assert self.host is not None
        context = ssl.create_default_context()
        try:
            with (
                smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_S, context=context)
                if self.security == TLS
                else smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_S)
            ) as server:
                if self.security == STARTTLS:
                    server.starttls(context=context)
                if self.user is not None:
                    server.login(self.user, self.password or "")
                server.send_message(message)
        except smtplib.SMTPException as error:
            raise OSError(f"the mail server {self.host} refuses: {error}") from error
