//! Expressions that are hard for scanners.

/// Expressions with literals, like those of real scanners: the first ones of [`HARD`].
pub(crate) const WITH_FACTORS: &[&str] = HARD.split_at(10).0;

/// Expressions with literals, and those that are hard in other ways: no literal, no limit, empty matches, look-arounds, Unicode.
pub(crate) const HARD: &[&str] = &[
    r"ghp_[0-9a-zA-Z]{36}",
    r"aba",
    r"(?i)[\w.-]{0,50}?(?:adobe)(?:[ \t\w.-]{0,20})[\s'\x22]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'\x22\s=]{0,5}([a-f0-9]{32})(?:[\x60'\x22\s;]|\\[nr]|$)",
    r"\b((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b",
    r"(?s)-----BEGIN[ A-Z0-9_-]{0,20}KEY-----.{4,}?-----END",
    r"xox[bp]-[0-9]{3,5}-?[0-9a-z]*",
    r"(?m)^token=(\S+)$",
    r"secret|secretkey|secretkeyring",
    r"(?:secretkey|secret)s?[0-9]{0,3}",
    r"[a-z]{0,3}key[a-z]{1,3}key",
    // Here end those of `WITH_FACTORS`.
    // Matches without a greatest length.
    r"a(?:.*b)?zz",
    r"(?s)start.*end",
    r"start.*?end|stop",
    r"begin(?:[a-z]+,)*[a-z]+;",
    r"(?:ab)+c",
    r"\w+@example\.com",
    r"[a-z]+://[^\s]+",
    r"(?:x*y|z+)key",
    r"qq[^\n]*",
    // No literal.
    r"[a-f0-9]{40}",
    r"\b[0-9]{13,16}\b",
    r"[A-Za-z0-9+/]{24}==",
    r"[0-9a-f]{8}-[0-9a-f]{4}",
    r"[01]{9}|[89]{10,12}",
    r"[XYZ]+",
    // Empty matches.
    r"k*",
    r"(?m)^",
    r"\b",
    // Look-arounds at the edges of pieces.
    r"\Ahead",
    r"tail\z",
    r"(?m)^line$",
    r"\Bkey\B",
    r"(?R)(?m)^crlf$",
    // Long windows: the limit of 512 bytes is passed.
    r"long[a-z]{500,520}x",
    r"(?i)verylong.{0,700}needle",
    r"wide[\s\S]{513}!",
    r"open[^)]*\)",
    // Case and Unicode.
    r"(?i)kelvin_sign[ks]{2}",
    r"(?i)ſtart|\p{Greek}{2}kk",
    r"(?i)straße|\p{Lu}K[a-z]",
    r"MiXeD[aA]bC",
    r"\p{Cyrillic}+key",
    r"\bname\p{L}*\b",
    r"(?:\bk\p{Greek}?|\B)",
    r"[^a]\xff\xfe",
    // Overlapping literals and branches of different kinds.
    r"abcabcabd",
    r"bcab|cabc|abca",
    r"tok(?:en)?(?:_id)?=[0-9]{2,4}|[0-9a-f]{12}tok",
    r"(?:foo|[a-f]{9})bar?",
    r"(?:aa|aaa|aaaa)b",
    r"a{3,5}",
    r"(?:key|[0-9]{10})?end!",
    r"((a)|(b))c{2}\d?",
];
