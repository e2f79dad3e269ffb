//! D25: PLEG flaps.

use super::prelude::*;

/// Applies D25. It counts only the messages about PLEG.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let journal = case.evidence.journal.as_ref()?;
    let peaks = peaks(&journal.pleg_ages);
    let peak = peaks.iter().copied().reduce(f64::max)?;
    let timeout = case.evidence.settings.request_timeout.value;
    let resets = peaks.len() > 1;
    let title = if resets { FactKind::PlegCameBack } else { FactKind::PlegWasUnhealthy };
    let mut found = finding(RuleId::FlappingPleg, Severity::Warning, Confidence::Likely, title);
    found.add_fact(FactKind::PlegAgeRose {
        seconds: peak.into(),
        messages: journal.pleg_ages.len(),
        periods: peaks.len(),
    });
    found.add_fact(if resets {
        let calls = (peak / timeout.as_secs_f64()).round().into();
        FactKind::CallsTimedOutInRelists { calls, timeout: timeout.into() }
    } else {
        FactKind::PlegAgeOnlyGrew
    });
    Some(found)
}

/// Returns the age at the end of each period in which the age only grows.
fn peaks(ages: &[f64]) -> Vec<f64> {
    let mut peaks = Vec::new();
    for (at, age) in ages.iter().enumerate() {
        if ages.get(at + 1).is_none_or(|next| next < age) {
            peaks.push(*age);
        }
    }
    peaks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_the_last_age_before_a_smaller_one() {
        assert_eq!(peaks(&[181.0, 191.0, 241.0, 182.0, 240.0]), [241.0, 240.0]);
        assert_eq!(peaks(&[181.0, 191.0]), [191.0]);
        assert!(peaks(&[]).is_empty());
    }
}
