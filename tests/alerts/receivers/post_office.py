"""A small real SMTP server on loopback: EHLO, STARTTLS, AUTH PLAIN, one letter after another."""

import base64
import contextlib
import socketserver
import ssl
import threading

__all__ = ["PostOffice"]


class PostOffice:
    """`letters` are those taken, as (sender, recipients, bytes). `answers` replace usual ones once.

    A name in `answers` is a command, such as `DATA`, `END` (after the text) or `RCPT`.
    """

    def __init__(self, *, certificate=None, tls=False, users=None, answers=()):
        self.letters, self.commands = [], []
        self.users, self.answers = users or {}, list(answers)
        self.context = None
        if certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.tls = tls
        office = self

        class Counter(_Counter):
            def setup(self):
                self.office = office
                super().setup()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Counter)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self):
        return self._server.server_address[1]

    def instead(self, command):
        """The answer that was ordered for this command, once."""
        for order in self.answers:
            if order[0] == command:
                self.answers.remove(order)
                return order[1]
        return None


class _Counter(socketserver.StreamRequestHandler):
    """One conversation."""

    office = None
    secure = False

    def setup(self):
        if self.office.tls:
            self.request = self.office.context.wrap_socket(self.request, server_side=True)
            self.secure = True
        super().setup()

    def finish(self):
        """What TLS made of the socket is ours to close."""
        for each in (self.rfile, self.wfile, self.request):
            with contextlib.suppress(OSError):
                each.close()

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())
        self.wfile.flush()

    def handle(self):
        self.sender, self.recipients = "", []
        try:
            self.say("220 office")
            while line := self.rfile.readline():
                if not self.serve(line.decode().rstrip("\r\n")):
                    return
        except (OSError, ssl.SSLError):
            return  # the other side went away, which is its right

    def serve(self, line):
        word = line.split(" ")[0].upper()
        self.office.commands.append(word)
        if (ordered := self.office.instead(word)) is not None:
            self.say(ordered)
            return ordered[:3] != "421"
        return getattr(self, f"on_{word.lower()}")(line)

    def on_ehlo(self, _):
        offers = ["250-office"]
        if self.office.context and not self.secure:
            offers.append("250-STARTTLS")
        if self.office.users and self.secure:
            offers.append("250-AUTH PLAIN")
        self.say("\r\n".join([*offers, "250 8BITMIME"]))
        return True

    def on_starttls(self, _):
        self.say("220 go")
        self.request = self.office.context.wrap_socket(self.request, server_side=True)
        self.secure = True
        self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb")
        return True

    def on_auth(self, line):
        _, user, password = base64.b64decode(line.split(" ")[2]).decode().split("\0")
        right = self.office.users.get(user) == password
        self.say("235 in" if right else "535 no")
        return True

    def on_mail(self, line):
        self.sender, self.recipients = line.partition(":")[2].split(">")[0].strip("< "), []
        self.say("250 ok")
        return True

    def on_rcpt(self, line):
        self.recipients.append(line.partition(":")[2].strip("<> "))
        self.say("250 ok")
        return True

    def on_data(self, _):
        self.say("354 go")
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        ordered = self.office.instead("END")
        if ordered is None:
            self.office.letters.append((self.sender, self.recipients, b"".join(lines)))
        self.say(ordered or "250 taken")
        return True

    def on_rset(self, _):
        self.say("250 ok")
        return True

    def on_noop(self, _):
        self.say("250 ok")
        return True

    def on_quit(self, _):
        self.say("221 bye")
        return False
