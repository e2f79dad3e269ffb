//! D36: a certificate of the kubelet has expired or is not valid yet.

use super::prelude::*;
use crate::diagnosis::kubelet::InvalidCertificate;

/// Applies D36. The date in the file is certain. The effect on a running kubelet is only likely, because the kubelet may
/// still use a certificate that it read earlier.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    case.evidence.kubelet.certificates.iter().map(finding_of).collect()
}

fn finding_of(certificate: &InvalidCertificate) -> HealthFinding {
    let usage = certificate.usage;
    let at = Wall::from_nanos(certificate.at.saturating_mul(1_000_000_000));
    let title = if certificate.is_expired {
        FactKind::CertificateExpired { usage, at }
    } else {
        FactKind::CertificateNotYetValid { usage, from: at }
    };
    let is_needed = usage.is_needed_for_the_server() && !certificate.is_replaced_at_start;
    let (severity, confidence) = if is_needed {
        (Severity::Critical, Confidence::Likely)
    } else {
        (Severity::Warning, Confidence::Certain)
    };
    let mut found = finding(RuleId::InvalidCertificate, severity, confidence, title);
    found.add_fact(FactKind::IsInFile { path: (&certificate.path).into() });
    found.add_fact(FactKind::CertificateEffect { usage });
    if certificate.is_replaced_at_start {
        found.add_fact(FactKind::CertificateIsReplacedAtStart);
    }
    let check = if certificate.is_expired { "KP060" } else { "KP061" };
    found.steps = steps_of("invalidCertificate", &[("check", Place::word(check))]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::preflight::CertificateUse;

    fn found(usage: CertificateUse, is_expired: bool, is_replaced_at_start: bool) -> HealthFinding {
        let path = "/pki/c.pem".to_owned();
        finding_of(&InvalidCertificate { path, usage, is_expired, at: 1_795_446_000, is_replaced_at_start })
    }

    #[test]
    fn certificates_that_the_api_server_needs_are_critical_and_others_a_warning() {
        let severity_of = |usage, is_replaced| {
            let found = found(usage, true, is_replaced);
            (found.severity, found.confidence)
        };
        let critical = (Severity::Critical, Confidence::Likely);
        let warning = (Severity::Warning, Confidence::Certain);
        assert_eq!(severity_of(CertificateUse::Client, false), critical);
        assert_eq!(severity_of(CertificateUse::ServerAuthority, false), critical);
        assert_eq!(severity_of(CertificateUse::Serving, false), warning);
        assert_eq!(severity_of(CertificateUse::CallerAuthority, false), warning);
        assert_eq!(severity_of(CertificateUse::Client, true), warning, "the kubelet bootstraps a new one");
    }

    #[test]
    fn the_title_has_the_date() {
        let expired = found(CertificateUse::Serving, true, false);
        assert_eq!(expired.title, "the kubelet's serving certificate expired on 2026-11-23T15:00:00Z");
        let early = found(CertificateUse::Client, false, false);
        assert_eq!(
            early.title,
            "the kubelet's client certificate is valid only from 2026-11-23T15:00:00Z on"
        );
        assert_eq!(early.steps[1].command.as_deref(), Some("plegctl explain KP061"), "{early:?}");
    }
}
