//! Checks IP addresses as Go's older parser does. It accepts leading zeros, which Rust's parser refuses.

use std::net::Ipv6Addr;

/// Whether Go's older parser accepts the text. Leading zeros (`010.0.0.1`) are valid; an IPv6 zone (`%eth0`) is not.
pub fn is_address(text: &str) -> bool {
    if !text.contains(':') {
        return without_leading_zeros(text).is_some();
    }
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => without_leading_zeros(tail)
            .is_some_and(|tail| format!("{head}:{tail}").parse::<Ipv6Addr>().is_ok()),
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

/// Returns an IPv4 address without leading zeros; `None` if the text is no IPv4 address.
fn without_leading_zeros(text: &str) -> Option<String> {
    let bytes = text
        .split('.')
        .map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse::<u8>().ok()).flatten()
        })
        .collect::<Option<Vec<u8>>>()?;
    let [a, b, c, d] = *bytes.as_slice() else {
        return None;
    };
    Some(format!("{a}.{b}.{c}.{d}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_are_valid_and_zones_are_not() {
        for good in ["1.2.3.4", "010.0.0.1", "::", "::ffff:010.0.0.1", "::1.2.3.4", "fd00::1"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "10.0.0", "10.0.0.256", "10.0.0.+1", "fe80::1%eth0", "x", "1.2.3.4.5", "1.2.3.4:80"] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
