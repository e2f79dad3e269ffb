//! The proxy that the environment names for a server, by the rules of Go's `net/http`, which kubectl uses. plegctl has no
//! client for proxies: it refuses to connect without the proxy, because then a token would take another way than the user
//! set up.

use std::net::IpAddr;

/// The environment variables that name proxies, and the hosts that need none.
#[derive(Clone, Debug, Default)]
pub struct ProxyVariables {
    /// `HTTPS_PROXY` or `https_proxy`.
    pub https: Option<String>,
    /// `HTTP_PROXY` or `http_proxy`.
    pub http: Option<String>,
    /// `NO_PROXY` or `no_proxy`.
    pub none: Option<String>,
}

impl ProxyVariables {
    /// Reads the environment.
    pub fn of_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let either = |name: &str| variable(name).or_else(|| variable(&name.to_lowercase()));
        Self { https: either("HTTPS_PROXY"), http: either("HTTP_PROXY"), none: either("NO_PROXY") }
    }

    /// Returns the name of the variable whose proxy is responsible for `server`, a URL without a path.
    pub fn variable_for(&self, server: &str) -> Option<&'static str> {
        let (scheme, authority) = server.split_once("://")?;
        let (name, proxy) = match scheme {
            "https" => ("HTTPS_PROXY", &self.https),
            _ => ("HTTP_PROXY", &self.http),
        };
        proxy.as_ref()?;
        (!self.is_excluded(authority, if scheme == "https" { "443" } else { "80" })).then_some(name)
    }

    /// Whether `NO_PROXY` or the address of the host excludes it.
    fn is_excluded(&self, authority: &str, default_port: &str) -> bool {
        let (host, port) = host_and_port(authority);
        let port = port.unwrap_or(default_port);
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
            return true;
        }
        let mut rules = self.none.iter().flat_map(|rules| rules.split(',')).map(str::trim);
        rules.any(|rule| excludes(rule, &host, address, port))
    }
}

/// Whether one rule of `NO_PROXY` excludes a host: `*`, a network, or a host with or without a port. A name also excludes its
/// subdomains, and with a dot at its start only these.
fn excludes(rule: &str, host: &str, address: Option<IpAddr>, port: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if let Some((network, bits)) = rule.split_once('/') {
        let (Ok(network), Ok(bits), Some(address)) = (network.parse(), bits.parse(), address) else {
            return false;
        };
        return is_in_network(address, network, bits);
    }
    let (name, rule_port) = host_and_port(rule);
    if name.is_empty() || rule_port.is_some_and(|rule_port| rule_port != port) {
        return false;
    }
    if let (Some(address), Ok(excluded)) = (address, name.parse::<IpAddr>()) {
        return address == excluded;
    }
    let name = name.trim_start_matches('*').to_ascii_lowercase();
    match name.strip_prefix('.') {
        Some(_) => host.ends_with(&name),
        None => host.strip_suffix(&name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
    }
}

/// Divides `host:port`, `[address]:port`, a host or an IPv6 address.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = authority.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return (address, rest.strip_prefix(':'));
    }
    match authority.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Whether the first `bits` bits of two addresses are equal.
fn is_in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if bits <= 32 => {
            (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if bits <= 128 => {
            (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_of_a_server_follows_its_scheme_and_no_proxy() {
        let proxies = |none: &str| ProxyVariables {
            https: Some("http://proxy.example:3128".to_owned()),
            http: None,
            none: Some(none.to_owned()),
        };
        for none in [
            "",
            "other.example",
            "xkube.example",
            ".kube.example.org",
            "10.1.0.0/16",
            "kube.example:443",
            "10.0.0.2",
        ] {
            assert_eq!(
                proxies(none).variable_for("https://kube.example:6443"),
                Some("HTTPS_PROXY"),
                "{none}"
            );
        }
        for none in ["*", "example", ".example", "a, kube.example", "KUBE.example:6443", "*.example"] {
            assert_eq!(proxies(none).variable_for("https://kube.example:6443"), None, "{none}");
        }
        assert_eq!(proxies("10.0.0.0/8").variable_for("https://10.9.8.7:6443"), None);
        assert_eq!(proxies("10.9.8.7").variable_for("https://10.9.8.7:6443"), None);
        assert_eq!(proxies("10.9.8.0/24").variable_for("https://10.9.9.7:6443"), Some("HTTPS_PROXY"));
        assert_eq!(proxies("fd00::/8").variable_for("https://[fd00::1]:6443"), None);
        assert_eq!(proxies("").variable_for("https://127.0.0.1:6443"), None);
        assert_eq!(proxies("").variable_for("https://[::1]:6443"), None);
        assert_eq!(proxies("").variable_for("https://localhost"), None);
        assert_eq!(proxies("").variable_for("http://kube.example:8080"), None);
    }
}
