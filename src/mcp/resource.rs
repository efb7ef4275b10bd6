//! The URIs of stored results: `tidegate://result/NAME`, and `?offset=N` for where to begin (RFC 3986).
//!
//! Nothing else is a resource here. Only the form is looked at; whether there is such a result is not decided here.

const BASE: &str = "tidegate://result/";
const NAME_BYTES: usize = 32;

/// The URI of a result from `offset` on.
pub fn resource_uri(name: &str, offset: u64) -> String {
    match offset {
        0 => format!("{BASE}{name}"),
        offset => format!("{BASE}{name}?offset={offset}"),
    }
}

/// The cursor `NAME:OFFSET` that a URI means; `None` if it is none of ours.
pub(crate) fn cursor_of(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix(BASE)?;
    let (name, offset) = match rest.split_once('?') {
        None => (rest, "0"),
        Some((name, query)) => (name, query.strip_prefix("offset=")?),
    };
    let is_name = name.len() == NAME_BYTES && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_number = matches!(offset.len(), 1..=20) && offset.bytes().all(|byte| byte.is_ascii_digit());
    (is_name && is_number).then(|| format!("{name}:{offset}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_form_is_a_resource_s123() {
        let name = "0123456789abcdef0123456789abcdef";
        for offset in [0, 1, u64::MAX] {
            assert_eq!(cursor_of(&resource_uri(name, offset)), Some(format!("{name}:{offset}")));
        }
        for bad in [
            String::new(),
            format!("result://{name}"),
            format!("tidegate://results/{name}"),
            format!("TIDEGATE://result/{name}"),
            format!("tidegate://result/../{}", &name[3..]),
            format!("tidegate://result/%2e%2e{}", &name[6..]),
            format!("tidegate://result/{}", name.to_uppercase()),
            format!("tidegate://result/{name}/"),
            format!("tidegate://result/{name}?"),
            format!("tidegate://result/{name}?offset="),
            format!("tidegate://result/{name}?offset=-1"),
            format!("tidegate://result/{name}?offset=1&x=2"),
            format!("tidegate://result/{name}#x"),
            "file:///etc/passwd".to_owned(),
        ] {
            assert_eq!(cursor_of(&bad), None, "{bad}");
        }
    }
}
