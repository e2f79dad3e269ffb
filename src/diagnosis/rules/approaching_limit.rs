//! D46: something grows towards a hard limit.

use super::prelude::*;
use crate::diagnosis::forecast::LimitForecast;

/// Applies D46.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    findings_of(&case.evidence.forecasts, case.evidence.taken_at)
}

/// Makes the findings about forecasts as they read at `now`, in the same order.
pub fn findings_of(forecasts: &[LimitForecast], now: Wall) -> Vec<HealthFinding> {
    forecasts.iter().map(|forecast| finding_of(forecast, now)).collect()
}

/// Makes the finding about a forecast as it reads at `now`. What is likely on the next day needs a person, everything else is
/// only worth knowing.
fn finding_of(forecast: &LimitForecast, now: Wall) -> HealthFinding {
    let is_soon = forecast.left(now) <= limits::FORECAST_SOON;
    let needs_person = is_soon && forecast.confidence == Confidence::Likely;
    let severity = if needs_person { Severity::Warning } else { Severity::Info };
    let title = FactKind::LimitFillsUp { forecast: forecast.clone() };
    let mut found = finding(RuleId::ApproachingLimit, severity, forecast.confidence, title);
    let measured = forecast.taken_at.duration_since(forecast.since).into();
    found.add_fact(FactKind::LimitIsFullAt { at: forecast.full_at, measured });
    found.add_fact(FactKind::AtTheLimit { limit: forecast.limit });
    let process = forecast.process.as_ref();
    let pid = process.map_or_else(|| Place::word("PID"), |process| Place::Process(process.pid));
    found.steps = steps_of(forecast.limit.as_str(), &[("pid", pid)]);
    found
}
