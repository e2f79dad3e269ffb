//! Checks with preflight whether a kubelet that does not run could start, and finds certificates of the kubelet that are
//! not valid now.

use std::path::Path;

use super::InvalidCertificate;
use crate::diagnosis::report::{Confidence, Severity};
use crate::diagnosis::{HealthRun, offload};
use crate::host::HostRoot;
use crate::kubelet::{KubeletSettings, KubeletVersion, stopped_settings};
use crate::manifests::preflight::{
    self, CertificateUse, KubeletCertificates, RELEASES, StartFinding, StartSettings, TargetKubelet, Validity,
};

/// Returns the first error that keeps a kubelet that does not run from starting; `None` if its settings are not known. If the kubelet's release is not known, only an error counts that all known releases have.
pub(in crate::diagnosis) async fn first_error<R>(run: HealthRun<'_, R>) -> Option<StartFinding> {
    let proc = run.inputs.proc.clone()?;
    let host = HostRoot::resolve(Some(&run.inputs.host_root));
    let release = run.inputs.kubelet.version;
    let now = run.inputs.clock.wall().nanos() / 1_000_000_000;
    let work = move || first_error_of(&stopped_settings(&host)?.0, &host, &proc, release, now);
    offload::value(offload::FILES_TIME_LIMIT, work).await.flatten()
}

fn first_error_of(
    own: &KubeletSettings,
    host: &HostRoot,
    proc: &Path,
    release: Option<KubeletVersion>,
    now: i64,
) -> Option<StartFinding> {
    let settings = preflight::read_node_settings(own, host, proc, None, now);
    let builder = preflight::builder_of_node(host);
    let errors = |release: KubeletVersion| errors(&settings, TargetKubelet { release, builder });
    if let Some(release) = release {
        return errors(release).into_iter().next();
    }
    let mut of_all = RELEASES.map(KubeletVersion::nearest).map(errors);
    let first = of_all.next()?;
    let others: Vec<Vec<StartFinding>> = of_all.collect();
    let is_same = |one: &StartFinding, other: &StartFinding| {
        (one.id, &one.field, &one.file, one.line) == (other.id, &other.field, &other.file, other.line)
    };
    first.into_iter().find(|one| others.iter().all(|found| found.iter().any(|other| is_same(one, other))))
}

/// Returns the errors that are at least likely, in the order in which the kubelet checks them.
fn errors(settings: &StartSettings, kubelet: TargetKubelet) -> Vec<StartFinding> {
    let findings = preflight::settings_findings(settings, kubelet).findings.into_iter();
    findings
        .filter(|finding| finding.severity == Severity::Error && finding.confidence != Confidence::Possible)
        .collect()
}

/// Returns the certificates that these settings name and that are not valid at `now`.
pub(super) fn invalid_certificates(
    settings: &KubeletSettings,
    host: &HostRoot,
    now: i64,
) -> Vec<InvalidCertificate> {
    let certificates = KubeletCertificates::read(settings, host);
    let invalid = certificates.files.into_iter().filter_map(|file| {
        let (is_expired, at) = match file.validity(now)? {
            Validity::Valid => return None,
            Validity::Expired(at) => (true, at),
            Validity::NotYet(from) => (false, from),
        };
        let is_client = file.usage == CertificateUse::Client;
        let is_replaced_at_start = is_client && is_expired && certificates.can_bootstrap;
        Some(InvalidCertificate { path: file.path, usage: file.usage, is_expired, at, is_replaced_at_start })
    });
    invalid.collect()
}
