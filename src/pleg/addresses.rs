//! Extracts a pod's IP addresses from its sandbox status.

use crate::cri::Network;
use crate::kubelet::is_address;

/// Returns the addresses of a pod's sandbox, the primary address first. If one address is invalid, returns none, as the
/// kubelet does.
pub(super) fn pod_addresses(network: Option<&Network>) -> Vec<String> {
    let Some(network) = network else {
        return Vec::new();
    };
    let primary = (!network.ip.is_empty()).then_some(&network.ip);
    let all: Vec<String> = primary.into_iter().chain(&network.additional_ips).cloned().collect();
    if all.iter().all(|text| is_address(text)) { all } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(ip: &str, more: &[&str]) -> Network {
        Network { ip: ip.into(), additional_ips: more.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn addresses_are_unchanged_and_the_primary_address_is_first() {
        assert_eq!(pod_addresses(Some(&network("010.0.0.1", &["fd00::1"]))), ["010.0.0.1", "fd00::1"]);
        assert_eq!(pod_addresses(Some(&network("", &["10.0.0.1"]))), ["10.0.0.1"]);
        assert_eq!(pod_addresses(Some(&network("::ffff:010.0.0.1", &[]))).len(), 1);
    }

    #[test]
    fn one_invalid_address_discards_all_addresses() {
        for bad in ["", "10.0.0", "10.0.0.256", "10.0.0.+1", "fe80::1%eth0", "x", "1.2.3.4.5"] {
            assert!(pod_addresses(Some(&network("10.0.0.1", &[bad]))).is_empty(), "{bad}");
        }
        assert!(pod_addresses(None).is_empty());
    }
}
