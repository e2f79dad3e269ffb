//! Finds the moment of a capture that the user names in `capture:PATH@TIME`. `TIME` is RFC 3339, a time of day, a distance
//! from the start such as `+90s`, or an incident such as `incident:2`.
//!
//! A [`CaptureMoment`] is a time of the recorder's monotonic clock; [`Wall`] is the wall clock's time of the same moment.

use std::time::Duration;

use super::Error;
use super::entry::Body;
use super::read::{Capture, CaptureMoment};
use crate::clock::Wall;

/// A day in nanoseconds.
const DAY: i64 = 86_400 * 1_000_000_000;

/// The time after a session's last entry that still belongs to the session, if the recorder did not stop normally.
const GRACE: Duration = Duration::from_secs(60);

/// Splits `PATH[@TIME]` into its two parts. An `@` before the last `/` is part of the path.
pub fn split_path_and_time(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('@') {
        Some((path, time)) if !time.contains('/') => (path, Some(time)),
        _ => (text, None),
    }
}

impl Capture {
    /// Returns the moment that `time` names. Without `time`, returns the worst moment of the last incident, or the end of
    /// the capture if it has no incident.
    pub fn moment(&self, time: Option<&str>) -> Result<(CaptureMoment, Wall), Error> {
        let (from, to) = self
            .span()
            .filter(|_| !self.sessions.is_empty())
            .ok_or_else(|| Error::Empty { path: self.path.clone() })?;
        let Some(text) = time else {
            // If the capture no longer contains the worst moment, the end is used.
            if let Some(worst) = self.chosen_incident(None).and_then(|number| self.worst_of(number)) {
                return Ok(worst);
            }
            let end = self.marks().last().and_then(|(last, _)| Some(self.sessions.get(last.session)?.to));
            return end.and_then(|end| self.with_wall_time(end)).map_or_else(|| self.at(to, "the end"), Ok);
        };
        if let Some(distance) = text.strip_prefix('+') {
            let unclear = |_| Error::Moment { time: text.to_owned() };
            return self.after(humantime::parse_duration(distance).map_err(unclear)?, text);
        }
        self.at(self.named_time(text, (from, to))?, text)
    }

    /// Returns the wall clock's time that `text` names, for the beginning or the end of a part. The capture needs no index.
    pub fn time(&self, text: &str) -> Result<Wall, Error> {
        let (from, to) = self.span().ok_or_else(|| Error::Empty { path: self.path.clone() })?;
        let wall = match text.strip_prefix('+').map(humantime::parse_duration) {
            Some(Ok(distance)) => self.time_after(distance)?,
            Some(Err(_)) => return Err(Error::Moment { time: text.to_owned() }),
            None => self.named_time(text, (from, to))?,
        };
        if wall < from || wall > to.plus(GRACE) {
            return Err(Error::Outside { time: text.to_owned(), from, to });
        }
        Ok(wall)
    }

    /// Returns the time of an incident's worst moment, of RFC 3339, or of a time of day.
    fn named_time(&self, text: &str, (from, to): (Wall, Wall)) -> Result<Wall, Error> {
        let unclear = || Error::Moment { time: text.to_owned() };
        let Some(number) = text.strip_prefix("incident:") else {
            return wall_of(text, from, to).ok_or_else(unclear);
        };
        let number = number.parse().map_err(|_| unclear())?;
        let known = || self.incidents.keys().copied().collect();
        let incident = self.incidents.get(&number);
        incident
            .map(|incident| Wall::from_nanos(incident.peak))
            .ok_or_else(|| Error::NoIncident { number, known: known() })
    }

    /// Returns the wall clock's time that [`Self::after`] returns, from the entries instead of the index.
    fn time_after(&self, distance: Duration) -> Result<Wall, Error> {
        let first = self.sessions.first();
        let (id, last) = first.map(|run| (run.session.id, run.to)).unwrap_or_default();
        let (mut session, mut start, mut before) = (0, None, None);
        let read = self.for_each_entry(|_, entry| {
            match entry.body {
                Some(Body::Session(next)) => session = next.id,
                Some(Body::CallStarted(_) | Body::Relist(_) | Body::Document(_)) if session == id => {
                    let mark = (CaptureMoment { session: 0, mono: entry.mono }, Wall::from_nanos(entry.wall));
                    let first = *start.get_or_insert(mark);
                    start = Some(mark.min(first));
                    before = before.max(Some(mark).filter(|(at, _)| *at <= first.0.plus(distance)));
                }
                _ => {}
            }
            Ok(())
        });
        read.map_err(|source| Error::Read { path: self.path.clone(), source })?;
        let (start, wall) = start.ok_or_else(|| Error::Empty { path: self.path.clone() })?;
        let then = start.plus(distance);
        Ok(match before.filter(|_| then <= last) {
            Some((mark, at_mark)) => at_mark.plus(then.since(mark)),
            None => wall.plus(distance),
        })
    }

    /// Returns the number of the incident whose worst moment `time` names; `None` if it names another moment.
    pub fn chosen_incident(&self, time: Option<&str>) -> Option<u64> {
        if let Some(text) = time {
            return text.strip_prefix("incident:")?.parse().ok();
        }
        let last = *self.incidents.keys().next_back()?;
        self.worst_of(last).map(|_| last)
    }

    /// Returns the worst moment of an incident, if the capture still contains it.
    fn worst_of(&self, incident: u64) -> Option<(CaptureMoment, Wall)> {
        let peak = Wall::from_nanos(self.incidents.get(&incident)?.peak);
        self.at(peak, "the worst moment").ok()
    }

    /// Returns the moment `distance` after the beginning of the capture. The monotonic clock measures the distance within
    /// the first session, the wall clock after that.
    fn after(&self, distance: Duration, time: &str) -> Result<(CaptureMoment, Wall), Error> {
        let (first, begins) = self.marks().first().copied().unwrap_or_default();
        let then = first.plus(distance);
        let within = self.sessions.get(first.session).is_some_and(|run| then <= run.to);
        match self.with_wall_time(then).filter(|_| within) {
            Some(shown) => Ok(shown),
            None => self.at(begins.plus(distance), time),
        }
    }

    /// Returns `moment` together with the wall clock's time at that moment.
    pub(super) fn with_wall_time(&self, moment: CaptureMoment) -> Option<(CaptureMoment, Wall)> {
        let marks = self.marks();
        let before = marks.get(..marks.partition_point(|(mark, _)| *mark <= moment))?;
        let (mark, wall) = before.last().filter(|(mark, _)| mark.session == moment.session)?;
        Some((moment, wall.plus(moment.since(*mark))))
    }

    /// Returns the times of all calls, relists and documents by both clocks, in order.
    fn marks(&self) -> Vec<(CaptureMoment, Wall)> {
        let calls = self.calls.iter().map(|call| (call.sent, call.wall));
        let relists = self.relists.iter().map(|relist| (relist.ended, relist.wall));
        let documents = self.documents.iter().map(|document| (document.at, document.wall));
        let mut marks: Vec<_> = calls.chain(relists).chain(documents).collect();
        marks.sort();
        marks
    }

    /// Returns the moment at which the wall clock showed `wall`. If it showed `wall` twice, returns the later moment.
    fn at(&self, wall: Wall, time: &str) -> Result<(CaptureMoment, Wall), Error> {
        let (from, to) = self.span().unwrap_or_default();
        let outside = || Error::Outside { time: time.to_owned(), from, to };
        let marks = self.marks();
        // Search between two marks of one session first, then after the nearest earlier mark.
        let mut between = marks.windows(2).filter_map(|pair| match *pair {
            [(from, before), (to, after)] if from.session == to.session && before <= wall && wall < after => {
                Some(from.plus(wall.duration_since(before).min(to.since(from))))
            }
            _ => None,
        });
        let nearest = || {
            let before = marks.iter().filter(|(_, known)| *known <= wall);
            let (moment, known) = before.max_by_key(|(moment, known)| (*known, *moment))?;
            Some(moment.plus(wall.duration_since(*known)))
        };
        let moment = between.next_back().or_else(nearest).ok_or_else(outside)?;
        let run = self.sessions.get(moment.session).ok_or_else(outside)?;
        // Between two sessions, and after the last one, nothing is known.
        let last = run.to.plus(if run.stopped { Duration::ZERO } else { GRACE });
        if moment > last || wall > to.plus(GRACE) {
            return Err(outside());
        }
        Ok((moment, wall))
    }
}

/// Parses RFC 3339 or a time of day. A time of day means its last occurrence between `from` and `to`.
fn wall_of(text: &str, from: Wall, to: Wall) -> Option<Wall> {
    if text.contains('T') || text.contains(' ') {
        let moment = humantime::parse_rfc3339_weak(text).ok()?;
        let since = moment.duration_since(std::time::UNIX_EPOCH).ok()?;
        return Some(Wall::from_nanos(i64::try_from(since.as_nanos()).ok()?));
    }
    let of_day = of_day(text)?;
    let mut midnight = to.nanos() - to.nanos().rem_euclid(DAY);
    // Go back to the last day on which this time of day is within the capture.
    while midnight + of_day > to.nanos() && midnight > from.nanos() {
        midnight -= DAY;
    }
    Some(Wall::from_nanos(midnight + of_day))
}

/// Returns the nanoseconds since midnight of `HH:MM` or `HH:MM:SS[.fraction]`.
fn of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hours, minutes) = (parts.next()?, parts.next()?);
    let seconds: f64 = parts.next().unwrap_or("0").parse().ok()?;
    let hours: u64 = hours.parse().ok().filter(|hours| *hours < 24)?;
    let minutes: u64 = minutes.parse().ok().filter(|minutes| *minutes < 60)?;
    if parts.next().is_some() || !(0.0..60.0).contains(&seconds) {
        return None;
    }
    let whole = Duration::from_secs(hours * 3600 + minutes * 60) + Duration::from_secs_f64(seconds);
    i64::try_from(whole.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(text: &str) -> Wall {
        serde_json::from_str(&format!("\"{text}\"")).unwrap()
    }

    #[test]
    fn path_may_contain_an_at_sign() {
        assert_eq!(split_path_and_time("/var/cap"), ("/var/cap", None));
        assert_eq!(split_path_and_time("/var/cap@+90s"), ("/var/cap", Some("+90s")));
        assert_eq!(split_path_and_time("/home/a@b/cap"), ("/home/a@b/cap", None));
        assert_eq!(split_path_and_time("/home/a@b/cap@12:00:00"), ("/home/a@b/cap", Some("12:00:00")));
    }

    #[test]
    fn wall_clock_time_has_three_forms() {
        let (from, to) = (wall("2026-11-20T22:00:00Z"), wall("2026-11-21T03:00:00Z"));
        let read = |text: &str| wall_of(text, from, to);
        assert_eq!(read("2026-11-20T23:00:00Z"), Some(wall("2026-11-20T23:00:00Z")));
        assert_eq!(read("02:30:00"), Some(wall("2026-11-21T02:30:00Z")));
        assert_eq!(read("23:15"), Some(wall("2026-11-20T23:15:00Z")));
        for bad in ["", "noon", "24:00:00", "12:60", "12", "1:2:3:4", "2026-13-01T00:00:00Z", "1:2:NaN"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
