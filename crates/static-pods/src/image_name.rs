//! Finds the tag of an image name, from which the kubelet derives the default pull policy, and whether a name is valid
//! (`pkg/util/parsers`, with `github.com/distribution/reference`). An invalid image name has no tag.

/// The maximum length of a name without its registry.
const MAX_NAME_LENGTH: usize = 255;
/// The maximum length of a tag.
const MAX_TAG_LENGTH: usize = 128;
/// The number of hexadecimal digits of an image id. A name must not look like an image id.
const ID_DIGITS: usize = 64;

/// Returns the tag of `image`, `latest` if the name has neither tag nor digest, or an empty text if it has only a digest.
/// Returns `None` if the name is invalid.
pub fn tag(image: &str) -> Option<&str> {
    if image.len() == ID_DIGITS && image.bytes().all(is_lower_hex) {
        return None;
    }
    let (domain, rest) = match image.split_once('/') {
        Some((first, rest)) if is_domain_like(first) => (Some(first), rest),
        _ => (None, image),
    };
    let (name, digest) = match rest.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match name.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (name, None),
    };
    let is_valid = path.len() <= MAX_NAME_LENGTH
        && path.split('/').all(is_component)
        && domain.is_none_or(|domain| is_domain(domain) || is_component(domain))
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    is_valid.then(|| tag.unwrap_or(if digest.is_some() { "" } else { "latest" }))
}

/// Whether the text before the first slash is the address of a registry and not part of the path.
fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !domain.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => {
            !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(is_host_label),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a part of a host name is valid: letters, digits and inner dashes.
pub fn is_host_label(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('-')
        && !part.ends_with('-')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a component of the path is valid: lower-case letters and digits, separated by a dot, one or two underscores or
/// any number of dashes.
fn is_component(component: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| is_inner(*byte));
    let bytes = component.as_bytes();
    let separators = component.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    is_end(bytes.first())
        && is_end(bytes.last())
        && separators.into_iter().all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

/// Whether a tag is valid.
fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG_LENGTH
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(digest: &str) -> bool {
    let (digits, length) = match digest.split_once(':') {
        Some(("sha256", digits)) => (digits, 64),
        Some(("sha384", digits)) => (digits, 96),
        Some(("sha512", digits)) => (digits, 128),
        _ => return false,
    };
    digits.len() == length && digits.bytes().all(is_lower_hex)
}

/// Whether a byte is a hexadecimal digit in lower case.
const fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tag_means_latest() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (image, expected) in [
            ("busybox", "latest"),
            ("busybox:1.36", "1.36"),
            ("library/busybox:latest", "latest"),
            ("registry.example:5000/a/b__c-d.e", "latest"),
            ("[fd00::1]:5000/a:2", "2"),
            ("localhost/a", "latest"),
            ("Registry/a", "latest"),
            ("a_b.c/d", "latest"),
            (&format!("busybox@{digest}"), ""),
            (&format!("busybox:latest@{digest}"), "latest"),
        ] {
            assert_eq!(tag(image), Some(expected), "{image}");
        }
    }

    #[test]
    fn an_invalid_image_name_has_no_tag() {
        for image in [
            "",
            "{{ image }}",
            "Busybox",
            "a//b",
            "a/",
            "/a",
            "a:",
            "a:-x",
            "a b",
            "a___b",
            "-a",
            "a@sha256:12",
            "a@md5:d41d8cd98f00b204e9800998ecf8427e",
            "registry.example:x/a",
            &"f".repeat(64),
        ] {
            assert_eq!(tag(image), None, "{image}");
        }
    }
}
