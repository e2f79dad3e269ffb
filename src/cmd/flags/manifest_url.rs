//! Fetches the URL of static pod manifests as the kubelet does: within ten seconds, following redirects.

use std::time::Duration;

use crate::kubelet::http;
use crate::manifests::podconfig::BODY_LIMIT;

/// The kubelet's time limit for a URL (pkg/kubelet/config/http.go).
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The number of redirects that Go's client follows (net/http, `defaultCheckRedirect`).
const MAX_REDIRECTS: usize = 10;

/// Parses a header from the command line.
pub fn header(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once(':').ok_or("write it as KEY:VALUE")?;
    let (key, value) = (key.trim(), value.trim());
    let clean = |text: &str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if key.is_empty() || key.contains(' ') || !clean(key) || !clean(value) {
        return Err("a header must be printable ASCII, without a space in its key".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Fetches the URL once.
pub async fn fetch(url: &str, headers: &[(String, String)]) -> Result<http::HttpAnswer, String> {
    let answer = match tokio::time::timeout(TIME_LIMIT, follow_redirects(url, headers)).await {
        Err(_) => return Err(format!("`{url}` did not answer within {} s", TIME_LIMIT.as_secs())),
        Ok(answer) => answer?,
    };
    if u64::try_from(answer.body.len()).is_ok_and(|length| length > BODY_LIMIT) {
        return Err(format!("`{url}` answers with more than {} MiB", BODY_LIMIT >> 20));
    }
    Ok(answer)
}

/// Follows redirects and returns the last answer.
async fn follow_redirects(url: &str, headers: &[(String, String)]) -> Result<http::HttpAnswer, String> {
    let client = http::HttpClient::default().with_headers(headers);
    let mut next = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let answer = client.get(&next, TIME_LIMIT).await.map_err(|why| why.to_string())?;
        match (answer.status, &answer.location) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => next = resolve_location(&next, location),
            _ => return Ok(answer),
        }
    }
    Err(format!("`{url}` redirects more than {MAX_REDIRECTS} times"))
}

/// Resolves a `Location` header against `url`.
fn resolve_location(url: &str, location: &str) -> String {
    if location.contains("://") {
        return location.to_owned();
    }
    let authority_at = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at_checked(authority_at).unwrap_or((url, ""));
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    if location.starts_with('/') {
        return format!("{scheme}{authority}{location}");
    }
    let folder = path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or("/");
    format!("{scheme}{authority}{folder}{location}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_where_a_browser_would_go() {
        assert_eq!(resolve_location("http://a:1/b/c", "/d"), "http://a:1/d");
        assert_eq!(resolve_location("http://a:1/b/c", "d"), "http://a:1/b/d");
        assert_eq!(resolve_location("http://a:1", "https://x/"), "https://x/");
    }

    #[test]
    fn a_header_has_a_key_without_blanks() {
        assert_eq!(header("X-Node: n1"), Ok(("X-Node".to_owned(), "n1".to_owned())));
        for bad in ["X-Node", ": x", "X Node: x", "X: a\nb"] {
            assert!(header(bad).is_err(), "{bad}");
        }
    }
}
