"""Regular expressions for text fields, with a description of each for error messages."""

PLATFORM = r"^[a-z0-9][a-z0-9-]{0,39}$"
TENANT = PLATFORM
PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"
NO_NUL = r"^[^\x00]*$"
VISIBLE = r"^[\x21-\x7e]+$"
LINK = r"^[hH][tT][tT][pP][sS]?://[^\x00-\x20\x7f-\xa0]+$"
EVENT_KIND = r"^[a-zA-Z0-9._-]+$"
CURSOR = r"^[A-Za-z0-9_-]{1,200}$"

DESCRIPTIONS = {
    PLATFORM: "should be lower-case letters, digits and hyphens, at most 40",
    PRINTABLE: "should have no control characters",
    NO_NUL: "should have no NUL characters",
    VISIBLE: "should be visible ASCII characters without spaces",
    LINK: "should be an http or https address without spaces or control characters",
    EVENT_KIND: "should be letters, digits, dots, hyphens and underscores",
    CURSOR: "should be the nextCursor of an earlier page of this list",
}
