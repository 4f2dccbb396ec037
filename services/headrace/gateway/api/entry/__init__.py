"""Entry of a request over HTTP, whichever API it speaks: its body is read, its caller admitted."""
