//! Sorts slices and builds ordered collections with little machine code. The standard library's `sort` functions and
//! `collect` into a `BTreeMap` or `BTreeSet` compile a copy of the sorting algorithm for each type and each key: 5 KB a
//! copy, and 4 % of the program in total. Here the algorithm exists once, because it sorts only the indices of the items;
//! then each item moves to its place.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Collects items into ordered collections.
pub trait IntoOrdered: Iterator + Sized {
    /// Collects entries into a map. If a key is repeated, its last value counts.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        map.extend(self);
        map
    }

    /// Collects items into a set.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        set.extend(self);
        set
    }
}

impl<I: Iterator> IntoOrdered for I {}

/// Sorts `items`. Equal items keep their order.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts `items` by a key. Items with equal keys keep their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// Sorts `items` by a comparison. Equal items keep their order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if items.len() < 2 {
        return;
    }
    let order = order(items.len(), &|one, other| match (items.get(one), items.get(other)) {
        (Some(one), Some(other)) => compare(one, other),
        _ => Ordering::Equal,
    });
    move_to(items, places(&order));
}

/// Returns the indices of `length` items in sorted order. `compare` compares the items at two indices.
#[expect(clippy::disallowed_methods, reason = "this is the one copy of the algorithm")]
pub fn order(length: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

/// Returns the place of each index in `order`: the inverse permutation.
pub fn places(order: &[usize]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    for (place, item) in order.iter().enumerate() {
        if let Some(of) = places.get_mut(*item) {
            *of = place;
        }
    }
    places
}

/// Moves each item to its place. Every swap brings one item to its final place.
fn move_to<T>(items: &mut [T], mut places: Vec<usize>) {
    for at in 0..items.len() {
        while let Some(&place) = places.get(at)
            && place != at
        {
            items.swap(at, place);
            places.swap(at, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_are_sorted_as_the_standard_library_sorts_them(values: Vec<(u8, u32)>) {
            let (mut ours, mut expected) = (values.clone(), values.clone());
            super::sort(&mut ours);
            expected.sort_unstable();
            prop_assert_eq!(ours, expected);
            let (mut ours, mut expected) = (values.clone(), values);
            super::sort_by_key(&mut ours, |(key, _)| *key);
            expected.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(ours, expected, "items with equal keys changed their order");
        }
    }
}
