//! Resolving a URI reference against a base (RFC 3986 section 5.2), for `$id` and `$ref` inside one document.
//! It must never fetch: a resolved URI is only a name to compare.

/// The part before `#`, and the fragment (empty if there is none).
pub(super) fn split_fragment(uri: &str) -> (&str, &str) {
    uri.split_once('#').unwrap_or((uri, ""))
}

/// `reference` (without fragment) seen from `base`.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    let (base, reference) = (Parts::of(base), Parts::of(reference));
    let mut target = reference;
    if reference.scheme.is_none() {
        target.scheme = base.scheme;
        if reference.authority.is_none() {
            target.authority = base.authority;
            if reference.path.is_empty() {
                return Parts { path: base.path, query: reference.query.or(base.query), ..target }.join(base.path);
            }
            if !reference.path.starts_with('/') {
                return target.join(&remove_dots(&merged(base, reference.path)));
            }
        }
    }
    target.join(&remove_dots(reference.path))
}

/// The percent-decoded text, unless it is not UTF-8 or has a broken escape.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |b: u8| char::from(b).to_digit(16);
            let value = digit(bytes.next()?)? * 16 + digit(bytes.next()?)?;
            out.push(u8::try_from(value).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[derive(Clone, Copy)]
struct Parts<'u> {
    scheme: Option<&'u str>,
    authority: Option<&'u str>,
    path: &'u str,
    query: Option<&'u str>,
}

impl<'u> Parts<'u> {
    fn of(uri: &'u str) -> Parts<'u> {
        let (scheme, rest) = match uri.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
            _ => (None, uri),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let Some(after) = rest.strip_prefix("//") else {
            return Parts { scheme, authority: None, path: rest, query };
        };
        let end = after.find('/').unwrap_or(after.len());
        Parts { scheme, authority: Some(&after[..end]), path: &after[end..], query }
    }

    fn join(self, path: &str) -> String {
        let mut uri = String::new();
        if let Some(scheme) = self.scheme {
            uri.push_str(scheme);
            uri.push(':');
        }
        if let Some(authority) = self.authority {
            uri.push_str("//");
            uri.push_str(authority);
        }
        uri.push_str(path);
        if let Some(query) = self.query {
            uri.push('?');
            uri.push_str(query);
        }
        uri
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

fn merged(base: Parts<'_>, path: &str) -> String {
    match base.path.rfind('/') {
        Some(end) => format!("{}{path}", &base.path[..=end]),
        None if base.authority.is_some() => format!("/{path}"),
        None => path.to_owned(),
    }
}

fn remove_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." if last => kept.push(""),
            "." => {}
            ".." => {
                // the empty segment before a leading slash stays
                if kept.len() > 1 || kept.first().is_some_and(|first| !first.is_empty()) {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            name => kept.push(name),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_resolve(base: &str, reference: &str, expected: &str) {
        assert_eq!(resolve(base, reference), expected, "{reference} from {base}");
    }

    #[test]
    fn references_resolve_as_the_rfc_has_it() {
        let base = "http://a/b/c/d?q";
        check_resolve(base, "g", "http://a/b/c/g");
        check_resolve(base, "./g/", "http://a/b/c/g/");
        check_resolve(base, "/g", "http://a/g");
        check_resolve(base, "//g", "http://g");
        check_resolve(base, "?y", "http://a/b/c/d?y");
        check_resolve(base, "", base);
        check_resolve(base, "..", "http://a/b/");
        check_resolve(base, "../../g", "http://a/g");
        check_resolve(base, "../../../g", "http://a/g");
        check_resolve(base, "urn:x:y", "urn:x:y");
        check_resolve("http://a", "g", "http://a/g");
        check_resolve("urn:uuid:1", "", "urn:uuid:1");
        check_resolve("", "node", "node");
        check_resolve("dir/file", "node", "dir/node");
    }

    #[test]
    fn percent_escapes_decode_or_fail() {
        assert_eq!(percent_decoded("a%25b%C3%A9"), Some("a%bé".to_owned()));
        assert_eq!(percent_decoded("%zz"), None);
        assert_eq!(percent_decoded("%4"), None);
        assert_eq!(percent_decoded("%ff"), None);
    }
}
