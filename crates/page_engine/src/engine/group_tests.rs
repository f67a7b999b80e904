//! Goal: commits gather as their options say, and a sync settles those that it has counted, and no
//! others.
//!
//! Method: one thread, with tickets made up.

use super::*;
use std::time::Duration;

fn group(transactions_max: u32, wait_us_max: u64) -> Group {
    Group::new(GroupCommitOptions {
        transactions_max,
        wait_us_max,
    })
}

fn commit(group: &Group, ticket: u64, durability: Durability) -> Due {
    assert_eq!(group.note(Lsn(ticket), durability), CommitTicket(ticket));
    group.due(durability)
}

#[test]
fn a_group_is_due_when_it_is_full() {
    let group = group(3, u64::MAX);
    assert_eq!(commit(&group, 1, Durability::Group), Due::Later);
    assert_eq!(commit(&group, 2, Durability::Group), Due::Later);
    let early = group.begin_sync();
    assert_eq!(early.newest, CommitTicket(2));
    assert_eq!(commit(&group, 3, Durability::Group), Due::Now);
    // The third joined after the sync had begun, so it is the first of the next group.
    group.end_sync(early);
    assert_eq!(commit(&group, 4, Durability::Group), Due::Later);
    assert_eq!(commit(&group, 5, Durability::Group), Due::Now);
    // A sync that is late takes nothing back.
    group.end_sync(group.begin_sync());
    group.end_sync(early);
    assert_eq!(commit(&group, 6, Durability::Group), Due::Later);
}

#[test]
fn a_group_is_due_when_its_oldest_member_has_waited() {
    let group = group(u32::MAX, 1);
    let mut ticket = 1;
    while commit(&group, ticket, Durability::Group) == Due::Later {
        std::thread::sleep(Duration::from_micros(2));
        ticket += 1;
    }
    assert!(ticket > 1);
}

#[test]
fn immediate_is_due_at_once_and_none_never() {
    let group = group(1, 0);
    assert_eq!(commit(&group, 1, Durability::None), Due::Later);
    assert_eq!(commit(&group, 2, Durability::Immediate), Due::Now);
    assert_eq!(commit(&group, 3, Durability::None), Due::Later);
    assert_eq!(group.promised(), CommitTicket(2));
    assert_eq!(group.newest(), CommitTicket(3));
}
