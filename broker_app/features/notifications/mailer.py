"""Mail: one message by SMTP, in a thread, with a timeout."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Final

from broker_app.base.settings.mail_server import STARTTLS, TLS, MailServer

#: seconds for each step of an SMTP session
TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Mailer:
    """The SMTP server. Without one nothing can be sent."""

    server: MailServer | None = field(default=None, repr=False)

    async def send(self, to: str, subject: str, text: str) -> None:
        """Raises OSError or ValueError with a sentence if it was not accepted."""
        if self.server is None:
            raise ValueError("no mail server is configured; the setting smtp names one")
        message = EmailMessage()
        message["From"], message["To"] = self.server.sender, to
        message["Subject"] = " ".join(subject.split())[:200]
        message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain="mom.invalid")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        await asyncio.to_thread(_send, self.server, message)


def _send(server: MailServer, message: EmailMessage) -> None:
    context = ssl.create_default_context()
    at = (server.host, server.port)
    try:
        with (
            smtplib.SMTP_SSL(*at, timeout=TIMEOUT_S, context=context)
            if server.security == TLS
            else smtplib.SMTP(*at, timeout=TIMEOUT_S)
        ) as session:
            if server.security == STARTTLS:
                session.starttls(context=context)
            if server.user:
                session.login(server.user, server.password)
            session.send_message(message)
    except smtplib.SMTPException as error:
        raise OSError(f"the mail server {server.host} refuses: {error}") from error
