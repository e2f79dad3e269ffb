//! [`LimitHistory`]: what a recorder has measured of each limit, in bounded memory: every measurement of the last hour, and of
//! the last day one for each ten minutes.

use std::collections::VecDeque;
use std::time::Duration;

use super::limit::{LimitForecast, MeasuredLimit};
use super::{Measurement, SHORTEST, forecast};
use crate::clock::Wall;
use crate::diagnosis::limits;

/// The least time between two measurements that are kept.
const APART: Duration = Duration::from_secs(20);

/// The age of the last measurement above which there is no forecast.
pub const STALE: Duration = Duration::from_secs(120);

/// How long every measurement is kept.
const RECENT: Duration = Duration::from_secs(3600);

/// The time between two older measurements that are kept.
const OLD_APART: Duration = Duration::from_secs(600);

/// How long those are kept.
const OLDEST: Duration = Duration::from_secs(24 * 3600);

/// The largest number of limits that are followed: more do not come from one runtime and one kubelet.
const MOST_LIMITS: usize = 32;

/// What was measured of each limit.
#[derive(Clone, Debug, Default)]
pub struct LimitHistory {
    series: Vec<Series>,
}

/// What was measured of one limit.
#[derive(Clone, Debug)]
struct Series {
    last: MeasuredLimit,
    old: VecDeque<Measurement>,
    recent: VecDeque<Measurement>,
}

impl LimitHistory {
    /// Adds what was measured at `at`, the time since any fixed moment, or by its `age` earlier. A limit that is missing keeps its history for an hour;
    /// one below which the kubelet may still make room has none.
    pub fn add(&mut self, at: Duration, pods: u64, measured: &[MeasuredLimit]) {
        for limit in measured {
            let at = at.saturating_sub(limit.age);
            let measurement = Measurement { at, used: limit.used, max: limit.max, pods };
            let is_same =
                |series: &Series| series.last.limit == limit.limit && series.last.process == limit.process;
            if !limits::reaches(limit.used, limit.max, limit.limit.cleaned_below()) {
                self.series.retain(|series| !is_same(series));
                continue;
            }
            let has_room = self.series.len() < MOST_LIMITS;
            if let Some(series) = self.series.iter_mut().find(|series| is_same(series)) {
                series.add(limit, measurement);
            } else if has_room {
                let recent = VecDeque::from([measurement]);
                self.series.push(Series { last: limit.clone(), old: VecDeque::new(), recent });
            }
        }
        let is_kept =
            |series: &Series| series.recent.back().is_some_and(|last| at.saturating_sub(last.at) <= RECENT);
        self.series.retain(is_kept);
    }

    /// Returns the limits that will be reached, the first one first. `at` and `now` are the same moment.
    pub fn forecasts(&self, at: Duration, now: Wall) -> Vec<LimitForecast> {
        let mut found: Vec<LimitForecast> = self
            .series
            .iter()
            .filter_map(|series| {
                let all: Vec<Measurement> = series.old.iter().chain(&series.recent).copied().collect();
                let age = at.saturating_sub(all.last()?.at);
                // The process may have ended since. What came late may be older.
                let since_it_came = age.saturating_sub(series.last.age);
                let forecast = forecast(&all, SHORTEST).filter(|_| since_it_came <= STALE)?;
                let taken_at = now.minus(age);
                Some(LimitForecast::new(&series.last, &forecast, taken_at))
            })
            .collect();
        found.sort_by_key(|forecast| forecast.full_at);
        found
    }

    /// Returns how many measurements are kept.
    #[cfg(test)]
    pub fn measurements(&self) -> usize {
        self.series.iter().map(|series| series.old.len() + series.recent.len()).sum()
    }
}

impl Series {
    fn add(&mut self, limit: &MeasuredLimit, measurement: Measurement) {
        let is_too_soon =
            self.recent.back().is_some_and(|last| measurement.at < last.at.saturating_add(APART));
        if is_too_soon {
            return;
        }
        // A limit that somebody has changed is another limit.
        if limit.max != self.last.max {
            self.old.clear();
            self.recent.clear();
        }
        self.last = limit.clone();
        self.recent.push_back(measurement);
        let end = measurement.at;
        while let Some(first) = self.recent.front().filter(|one| end.saturating_sub(one.at) > RECENT).copied()
        {
            self.recent.pop_front();
            if self.old.back().is_none_or(|last| first.at.saturating_sub(last.at) >= OLD_APART) {
                self.old.push_back(first);
            }
        }
        while self.old.front().is_some_and(|one| end.saturating_sub(one.at) > OLDEST) {
            self.old.pop_front();
        }
    }
}
