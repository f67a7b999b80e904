//! Goal: the rows, inputs, transactions and conditions are those of the specification.
//!
//! Method: small volatile databases; counts of clause 4.3 at the scale of the test; runs of every
//! method and over several partitions; one value changed for each condition, which must then be
//! violated.

use super::draw::TextPool;
use super::schema::{customer, district, money, order_line, orders, stock, units, warehouse};
use super::*;
use crate::columns::{integer, text};
use crate::testing::{TestDatabase, content, count, run_at_once, step};
use crate::{RoutedScript, Script, Workload, WorkloadError};
use indelible::{
    Database, Direction, Durability, Method, Prefix, Table, Timestamp, Transaction, Value,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

const SMALL: Scale = Scale {
    items: 200,
    customers: 30,
};

fn options(warehouses: u32, partitions: u32) -> TpccOptions {
    TpccOptions {
        warehouses,
        partitions,
        scale: SMALL,
        transactions: 2000,
        seed: 7,
        ..TpccOptions::default()
    }
}

/// Runs `count` transactions of each partition, one after the other; returns the outcomes of the
/// last partition.
fn run(
    place: &TestDatabase,
    workload: &Tpcc,
    tables: &Tables,
    from: u64,
    count: u64,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for partition in 0..workload.options().partitions {
        outcomes.clear();
        let mut runner = workload
            .runner(place.database(), tables, partition, from)
            .unwrap();
        for _ in 0..count {
            if step(place.database(), &mut runner) {
                outcomes.push(runner.outcome());
            }
        }
    }
    outcomes
}

#[test]
fn the_rows_are_those_of_clause_4_3() {
    let place = TestDatabase::new("tpcc-rows", Method::Volatile, 2);
    let workload = Tpcc::new(options(3, 2)).unwrap();
    let loaded = std::sync::atomic::AtomicU64::new(0);
    let tables = workload
        .load(place.database(), |rows| {
            loaded.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
        })
        .unwrap();
    let database = place.database();
    let rows = |table| count(database, table);
    assert_eq!(rows(&tables.item), 200);
    assert_eq!(rows(&tables.warehouse), 3);
    assert_eq!(rows(&tables.stock), 3 * 200);
    assert_eq!(rows(&tables.district), 30);
    assert_eq!(rows(&tables.customer), 30 * 30);
    assert_eq!(rows(&tables.history), 30 * 30);
    assert_eq!(rows(&tables.orders), 30 * 30);
    assert_eq!(rows(&tables.new_order), 30 * 9);
    let lines = rows(&tables.order_line);
    assert!((8500..9500).contains(&lines), "{lines}");
    let progress = loaded.into_inner();
    assert_eq!(progress, 200 + 3 + 600 + 30 + 3 * 900 + 270 + lines);
    let foreseen = SMALL.rows(3);
    assert!(
        foreseen.abs_diff(progress) < progress / 20,
        "{foreseen} {progress}"
    );
    let checked = workload.check(database, &[0..=0, 0..=0]).unwrap();
    assert_eq!(checked.warehouses.len(), 3);
}

#[test]
fn full_size_is_that_of_the_specification() {
    let scale = Scale::FULL;
    assert_eq!(
        (scale.items, scale.customers, scale.new_orders()),
        (100_000, 3000, 900)
    );
    assert_eq!(scale.names(), 1000);
    assert_eq!(Scale::share(1.0), scale);
    assert_eq!(
        Scale::share(0.01),
        Scale {
            items: 1000,
            customers: 30
        }
    );
    assert_eq!(
        Scale::share(0.0),
        Scale {
            items: 20,
            customers: 10
        }
    );
}

#[test]
fn columns_hold_what_they_must() {
    let place = TestDatabase::new("tpcc-columns", Method::Volatile, 1);
    let options = TpccOptions {
        scale: Scale {
            items: 2000,
            customers: 300,
        },
        ..options(1, 1)
    };
    let workload = Tpcc::new(options).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    let (mut bad, mut original, mut customers_of_orders) = (0, 0, BTreeMap::new());
    place
        .database()
        .read(|reader| {
            reader.scan(&tables.customer, .., Direction::Forward, |row| {
                bad += u32::from(text(row, customer::CREDIT) == "BC");
                assert_eq!(text(row, customer::MIDDLE), "OE");
                assert!((300..=500).contains(&text(row, customer::DATA).len()));
                assert_eq!(text(row, customer::PHONE).len(), 16);
                let id = u32::try_from(integer(row, customer::ID)).unwrap();
                assert_eq!(text(row, customer::LAST), last_name(id - 1));
                ControlFlow::Continue(())
            })?;
            reader.scan(&tables.stock, .., Direction::Forward, |row| {
                original += u32::from(text(row, stock::DATA).contains("ORIGINAL"));
                assert!((26..=50).contains(&text(row, stock::DATA).len()));
                assert!((10..=100).contains(&integer(row, stock::QUANTITY)));
                assert_eq!(text(row, stock::DISTRICTS + 9).len(), 24);
                ControlFlow::Continue(())
            })?;
            reader.scan(&tables.orders, .., Direction::Forward, |row| {
                let district = integer(row, orders::DISTRICT);
                let customers: &mut BTreeSet<i64> =
                    customers_of_orders.entry(district).or_default();
                assert!(customers.insert(integer(row, orders::CUSTOMER)));
                assert_eq!(
                    row.get(orders::CARRIER).is_null(),
                    integer(row, orders::ID) > 210
                );
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    assert!((220..380).contains(&bad), "{bad} of 3000");
    assert!((140..260).contains(&original), "{original} of 2000");
    assert!(
        customers_of_orders
            .values()
            .all(|customers| customers.len() == 300)
    );
}

#[test]
fn a_seed_gives_the_same_inputs() {
    let lists = |seed| {
        let options = TpccOptions {
            seed,
            ..options(4, 2)
        };
        let workload = Tpcc::new(options).unwrap();
        [workload.list(0).clone(), workload.list(1).clone()]
    };
    assert_eq!(lists(1), lists(1));
    assert_ne!(lists(1), lists(2));
    let pool = |seed| {
        TextPool::new(seed)
            .text(&mut crate::random::Random::new(1), 10, 20)
            .to_owned()
    };
    assert_eq!(pool(1), pool(1));
    assert_ne!(pool(1), pool(2));
}

#[test]
fn inputs_are_those_of_clause_2() {
    let options = TpccOptions {
        transactions: 100_000,
        ..options(4, 2)
    };
    let workload = Tpcc::new(options).unwrap();
    let mut counts = BTreeMap::new();
    let (mut rollbacks, mut lines, mut remote_lines) = (0_u32, 0_u32, 0_u32);
    let (mut remote_payments, mut by_name) = (0_u32, 0_u32);
    for (partition, list) in [(0, workload.list(0)), (1, workload.list(1))] {
        for input in list.inputs() {
            *counts.entry(input.kind().name()).or_insert(0_u32) += 1;
            assert_eq!(u32::from(input.warehouse().cast_unsigned()) % 2, partition);
            match *input {
                Input::NewOrder {
                    warehouse,
                    first_line,
                    lines: count,
                    ..
                } => {
                    assert!((5..=15).contains(&count));
                    rollbacks += u32::from(list.rolls_back(*input));
                    for line in list.lines(first_line, count) {
                        lines += 1;
                        remote_lines += u32::from(line.supply_warehouse != warehouse);
                        assert!(
                            (1..=201).contains(&line.item) && (1..=10).contains(&line.quantity)
                        );
                        assert!((1..=4).contains(&line.supply_warehouse));
                    }
                }
                Input::Payment {
                    warehouse,
                    district,
                    customer_warehouse,
                    customer_district,
                    customer,
                    amount_cents,
                } => {
                    remote_payments += u32::from(warehouse != customer_warehouse);
                    assert!(warehouse != customer_warehouse || district == customer_district);
                    by_name += u32::from(matches!(customer, CustomerBy::Name(_)));
                    assert!((100..=500_000).contains(&amount_cents));
                }
                Input::StockLevel { threshold, .. } => assert!((10..=20).contains(&threshold)),
                Input::Delivery { carrier, .. } => assert!((1..=10).contains(&carrier)),
                Input::OrderStatus { .. } => {}
            }
        }
    }
    // Decks: the shares are exact.
    assert_eq!(counts["new-order"], 45_000);
    assert_eq!(counts["payment"], 43_000);
    assert_eq!(
        (
            counts["delivery"],
            counts["order-status"],
            counts["stock-level"]
        ),
        (4000, 4000, 4000)
    );
    assert!((380..520).contains(&rollbacks), "{rollbacks} of 45,000");
    let per_thousand = remote_lines * 1000 / lines;
    assert!((8..=12).contains(&per_thousand), "{per_thousand}");
    assert!(
        (6200..6700).contains(&remote_payments),
        "{remote_payments} of 43,000"
    );
    assert!((25_300..26_300).contains(&by_name), "{by_name} of 43,000");
}

#[test]
fn the_papers_variant_stays_within_its_partition() {
    for warehouses in [2, 4] {
        let options = TpccOptions {
            single_partition: true,
            ..options(warehouses, 2)
        };
        let workload = Tpcc::new(options).unwrap();
        for partition in 0..2 {
            let list = workload.list(partition);
            let mut remote = 0;
            for input in list.inputs() {
                list.warehouses(*input, |warehouse| {
                    assert_eq!(u32::from(warehouse.cast_unsigned()) % 2, partition);
                    remote += u32::from(warehouse != input.warehouse());
                });
            }
            assert_eq!(remote > 0, warehouses == 4);
        }
    }
}

#[test]
fn every_method_ends_with_the_same_consistent_content() {
    let mut contents = Vec::new();
    for method in Method::distinct() {
        let place = TestDatabase::new("tpcc-methods", method, 1);
        let workload = Tpcc::new(options(2, 1)).unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        run(&place, &workload, &tables, 0, 600);
        let checked = workload.check(place.database(), &[600..=600]).unwrap();
        assert!(
            checked
                .warehouses
                .iter()
                .all(|w| w.new_orders > 0 && w.payments > 0 && w.delivered_orders > 0)
        );
        assert!(place.database().verify().unwrap().damage.is_empty());
        contents.push((method, content(place.database())));
    }
    for (method, content) in &contents[1..] {
        assert_eq!(content, &contents[0].1, "{method}");
    }
}

#[test]
fn transactions_run_over_several_partitions() {
    for method in Method::distinct() {
        let place = TestDatabase::new("tpcc-several", method, 3);
        let workload = Tpcc::new(options(5, 3)).unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        let mut several = 0;
        let mut partitions = Vec::new();
        let runner = workload.runner(place.database(), &tables, 0, 0).unwrap();
        for position in 0..400 {
            let mut at = workload
                .runner(place.database(), &tables, 0, position)
                .unwrap();
            at.seek(position);
            at.partitions(&mut partitions);
            assert!(partitions.contains(&0));
            several += u32::from(partitions.len() > 1);
        }
        assert!(several > 20, "{several}");
        drop(runner);
        run_at_once(place.database(), &workload, &tables, 400);
        workload
            .check(place.database(), &[400..=400, 400..=400, 400..=400])
            .unwrap();
        let lost = workload.check(place.database(), &[400..=400, 1..=2, 400..=400]);
        assert!(
            matches!(lost, Err(WorkloadError::Lost { partition: 1, .. })),
            "{lost:?}"
        );
    }
}

#[test]
fn what_is_rolled_back_leaves_nothing() {
    for method in Method::distinct() {
        let place = TestDatabase::new("tpcc-rollback", method, 1);
        let workload = Tpcc::new(TpccOptions {
            mix: "new-order".parse().unwrap(),
            ..options(1, 1)
        })
        .unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        let list = workload.list(0);
        let position = list
            .inputs()
            .iter()
            .position(|input| list.rolls_back(*input))
            .unwrap();
        let before = content(place.database());
        let mut runner = workload
            .runner(place.database(), &tables, 0, position as u64)
            .unwrap();
        let mut worker = place
            .database()
            .worker(&[0], Durability::Immediate)
            .unwrap();
        let undone = worker.transaction(|t| runner.step(t)).unwrap_err();
        assert!(is_rollback(&undone), "{undone}");
        drop(worker);
        assert!(content(place.database()) == before);
        assert!(place.database().verify().unwrap().damage.is_empty());
    }
}

#[test]
fn the_transactions_do_what_clause_2_says() {
    let place = TestDatabase::new("tpcc-profile", Method::Volatile, 1);
    let workload = Tpcc::new(options(1, 1)).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    let outcomes = run(&place, &workload, &tables, 0, 1000);
    let has = |test: fn(&Outcome) -> bool| outcomes.iter().any(test);
    assert!(has(|o| matches!(
        o,
        Outcome::NewOrder {
            order: 31,
            total_cents: 1..,
            ..
        }
    )));
    assert!(has(|o| matches!(
        o,
        Outcome::NewOrder {
            brand_lines: 1..,
            ..
        }
    )));
    assert!(has(|o| matches!(
        o,
        Outcome::Payment {
            balance_cents: ..0,
            ..
        }
    )));
    assert!(has(|o| matches!(
        o,
        Outcome::OrderStatus {
            order: Some(_),
            lines: 5..,
            ..
        }
    )));
    assert!(has(|o| matches!(o, Outcome::Delivery { orders: 10 })));
    assert!(has(|o| matches!(o, Outcome::StockLevel { low_items: 1.. })));
    let undelivered = count(place.database(), &tables.new_order);
    let delivered: u32 = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Delivery { orders } => *orders,
            _ => 0,
        })
        .sum();
    let ordered = outcomes
        .iter()
        .filter(|o| matches!(o, Outcome::NewOrder { .. }))
        .count() as u64;
    assert_eq!(undelivered, 90 + ordered - u64::from(delivered));
}

#[test]
fn a_name_means_the_customer_in_the_middle() {
    let place = TestDatabase::new("tpcc-middle", Method::Volatile, 1);
    let workload = Tpcc::new(TpccOptions {
        mix: "order-status".parse().unwrap(),
        ..options(1, 1)
    })
    .unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    let database = place.database();
    let list = workload.list(0);
    let (position, warehouse, district, name) = (0..)
        .zip(list.inputs())
        .find_map(|(position, input)| match *input {
            Input::OrderStatus {
                warehouse,
                district,
                customer: CustomerBy::Name(name),
            } => Some((position, warehouse, district, name)),
            _ => None,
        })
        .unwrap();
    // Three more of the same name: with the loaded one four, of whom the second is in the middle.
    let surname = last_name(name.into());
    database
        .transaction(|t| {
            let mut row = t
                .get(&tables.customer, (warehouse, district, i32::from(name) + 1))?
                .unwrap();
            for (id, first) in [(901, "!1"), (902, "!2"), (903, "!3")] {
                row.set(customer::ID, id)?;
                row.set(customer::FIRST, first)?;
                assert_eq!(text(&row, customer::LAST), surname);
                t.insert(&tables.customer, &row)?;
            }
            Ok(())
        })
        .unwrap();
    let mut runner = workload.runner(database, &tables, 0, position).unwrap();
    database.transaction(|t| runner.step(t)).unwrap();
    assert!(matches!(
        runner.outcome(),
        Outcome::OrderStatus {
            customer: 902,
            order: None,
            ..
        }
    ));
}

/// One change of one row, and the conditions that must then be violated, among others or alone.
type Break = (
    &'static str,
    &'static [u8],
    fn(&mut Transaction<'_>, &Tables) -> indelible::Result<()>,
);

fn add_to_money(
    t: &mut Transaction<'_>,
    table: &Table,
    key: &[Value],
    column: usize,
) -> indelible::Result<()> {
    let row = t.get(table, key)?.unwrap();
    set(t, table, key, column, money(units(&row, column) + 1))
}

fn set<'v>(
    t: &mut Transaction<'_>,
    table: &Table,
    key: &[Value],
    column: usize,
    value: impl Into<indelible::ValueRef<'v>>,
) -> indelible::Result<()> {
    let mut changes = table.changes();
    changes.set(column, value)?;
    assert!(t.update(table, key, &changes)?);
    Ok(())
}

const BREAKS: [Break; 13] = [
    ("a cent more in a warehouse", &[1, 8], |t, tables| {
        add_to_money(t, &tables.warehouse, &[1_i16.into()], warehouse::YTD)
    }),
    ("a cent more in a district", &[1, 9], |t, tables| {
        add_to_money(
            t,
            &tables.district,
            &[1_i16.into(), 2_i16.into()],
            district::YTD,
        )
    }),
    ("a next order too many", &[2], |t, tables| {
        set(
            t,
            &tables.district,
            &[1_i16.into(), 2_i16.into()],
            district::NEXT_ORDER,
            99_i32,
        )
    }),
    ("a gap among the undelivered", &[3, 5, 11], |t, tables| {
        t.delete(&tables.new_order, (1_i16, 2_i16, 25)).map(drop)
    }),
    (
        "the newest undelivered order lost",
        &[2, 5, 11],
        |t, tables| t.delete(&tables.new_order, (1_i16, 2_i16, 30)).map(drop),
    ),
    ("an order that says more lines", &[4, 6], |t, tables| {
        set(
            t,
            &tables.orders,
            &[1_i16.into(), 2_i16.into(), 3.into()],
            orders::LINES,
            16_i16,
        )
    }),
    ("a line lost", &[4, 6], |t, tables| {
        t.delete(&tables.order_line, (1_i16, 2_i16, 3, 1_i16))
            .map(drop)
    }),
    ("a carrier lost", &[5, 7], |t, tables| {
        set(
            t,
            &tables.orders,
            &[1_i16.into(), 2_i16.into(), 3.into()],
            orders::CARRIER,
            None::<i16>,
        )
    }),
    ("a line delivered alone", &[7, 10, 12], |t, tables| {
        let key = [1_i16.into(), 2_i16.into(), 30.into(), 1_i16.into()];
        set(
            t,
            &tables.order_line,
            &key,
            order_line::DELIVERY_DATE,
            Timestamp(1),
        )
    }),
    ("a payment lost", &[8, 9, 10], |t, tables| {
        t.delete(&tables.history, (1_i16, 1_i64)).map(drop)
    }),
    ("a cent more on a balance", &[10, 12], |t, tables| {
        let key = [1_i16.into(), 2_i16.into(), 3.into()];
        add_to_money(t, &tables.customer, &key, customer::BALANCE)
    }),
    ("a cent more paid by a customer", &[12], |t, tables| {
        let key = [1_i16.into(), 2_i16.into(), 3.into()];
        add_to_money(t, &tables.customer, &key, customer::YTD_PAYMENT)
    }),
    ("a delivery too many", &[11], |t, tables| {
        let key = [1_i16.into(), 2_i16.into(), 3.into()];
        set(t, &tables.customer, &key, customer::DELIVERIES, 1_i32)
    }),
];

#[test]
fn each_condition_is_violated_by_a_broken_row() {
    let place = TestDatabase::new("tpcc-broken", Method::Volatile, 2);
    let workload = Tpcc::new(options(2, 2)).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    let mut seen = BTreeSet::new();
    for (what, conditions, break_row) in BREAKS {
        let before = check_consistency(place.database()).unwrap();
        assert_eq!(before.findings.violated, 0, "before {what}: {before:?}");
        let saved = save(place.database(), &tables);
        place
            .database()
            .transaction(|t| break_row(t, &tables))
            .unwrap();
        let checked = check_consistency(place.database()).unwrap();
        let violated: BTreeSet<u8> = checked
            .findings
            .violations
            .iter()
            .map(|v| v.condition)
            .collect();
        assert_eq!(
            violated,
            conditions.iter().copied().collect(),
            "{what}: {checked:?}"
        );
        assert!(
            checked
                .into_result()
                .unwrap_err()
                .to_string()
                .contains("condition")
        );
        seen.extend(violated);
        restore(place.database(), &saved);
    }
    assert_eq!(seen, (1..=12).collect());
}

/// The rows of warehouse 1 that the breaks touch.
fn save(database: &Database, tables: &Tables) -> Vec<(Table, Vec<indelible::Row>)> {
    let tables = [
        &tables.warehouse,
        &tables.district,
        &tables.customer,
        &tables.history,
        &tables.new_order,
        &tables.orders,
        &tables.order_line,
    ];
    let collect = |table: &Table| database.read(|r| r.collect(table, Prefix(1_i16))).unwrap();
    tables.map(|table| (table.clone(), collect(table))).into()
}

fn restore(database: &Database, saved: &[(Table, Vec<indelible::Row>)]) {
    database
        .transaction(|t| {
            for (table, rows) in saved {
                for row in rows {
                    t.upsert(table, row)?;
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn mixes_and_options_are_checked() {
    assert_eq!("standard".parse(), Ok(Mix::STANDARD));
    assert_eq!("45, 43,4,4,4".parse(), Ok(Mix::STANDARD));
    assert_eq!("payment".parse::<Mix>().unwrap().cards(), [0, 1, 0, 0, 0]);
    assert_eq!("1,2,3,4,5".parse::<Mix>().unwrap().to_string(), "1,2,3,4,5");
    for bad in ["", "1,2,3", "0,0,0,0,0", "a", "9000,9000,0,0,0"] {
        assert!(
            bad.parse::<Mix>().unwrap_err().contains("45,43,4,4,4"),
            "{bad}"
        );
    }
    for (bad, option) in [
        (
            TpccOptions {
                partitions: 0,
                ..options(1, 1)
            },
            "partitions",
        ),
        (options(1, 2), "warehouses"),
        (options(20_000, 1), "warehouses"),
        (
            TpccOptions {
                scale: Scale {
                    items: 3,
                    customers: 30,
                },
                ..options(1, 1)
            },
            "scale",
        ),
    ] {
        let error = Tpcc::new(bad).unwrap_err().to_string();
        assert!(error.contains(&format!("`{option}`")), "{error}");
    }
}

#[test]
fn a_runner_goes_on_after_reopening() {
    let mut place = TestDatabase::new("tpcc-reopen", Method::NvmInp, 1);
    let workload = Tpcc::new(options(1, 1)).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    run(&place, &workload, &tables, 0, 200);
    drop(tables);
    drop(place.database.take());
    place.database = Some(Database::open(&place.path).unwrap());
    let tables = Tables::open(place.database()).unwrap();
    run(&place, &workload, &tables, 200, 200);
    workload.check(place.database(), &[400..=400]).unwrap();
}

#[test]
fn threads_that_share_a_partition_have_home_warehouses() {
    let place = TestDatabase::shared("tpcc-shared", 2);
    let workload = Tpcc::new(TpccOptions {
        threads: 2,
        ..options(5, 1)
    })
    .unwrap();
    let homes = |list| workload.warehouses(list).collect::<Vec<_>>();
    assert_eq!((homes(0), homes(1)), (vec![2, 4], vec![1, 3, 5]));
    let mut visited = BTreeSet::new();
    for input in workload.list(1).inputs() {
        assert!(homes(1).contains(&input.warehouse()));
        workload
            .list(1)
            .warehouses(*input, |w| _ = visited.insert(w));
    }
    assert_eq!(visited, (1..=5).collect());
    let tables = workload.load(place.database(), |_| ()).unwrap();
    run_at_once(place.database(), &workload, &tables, 200);
    workload
        .check(place.database(), &[200..=200, 200..=200])
        .unwrap();
    let lost = workload.check(place.database(), &[200..=200, 190..=190]);
    assert!(matches!(lost, Err(WorkloadError::Lost { .. })), "{lost:?}");
}
