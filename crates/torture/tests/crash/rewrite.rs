//! Changes of a table's columns under power cuts.
//!
//! Goal: a table that is rewritten is the old one or the new one, whole, at every crash point, and
//! nothing is left of the other. Method: a change through the embedded database on the simulated
//! device, in two partitions; at each crash point a few images are opened twice.

use crate::common;
use indelible::{Column, DataType, Database, Method};
use pmem::device::simulated::{CrashPoint, SimulatedWorld, WorldOptions};
use std::sync::{Arc, Mutex};
use torture::SimulatedPlatform;

const ROWS: i64 = 9;
const POINT_IMAGES: usize = 4;

/// The columns of each row, as text.
type Content = Vec<Vec<String>>;

#[derive(Default)]
struct Watch {
    allowed: Vec<Content>,
    images: u64,
    /// Images with the content before and after the change.
    seen: [u64; 2],
    failure: Option<String>,
}

fn content(db: &Database) -> indelible::Result<Content> {
    let tables = db.tables();
    let [table] = tables.as_slice() else {
        return Err(indelible::Error::rejected(format!("tables {tables:?}")));
    };
    let rows = db.read(|reader| {
        let index = table.index("by_name")?;
        let found = reader.find(&index, "name 3")?.len();
        assert_eq!(found, 1, "the index has the row");
        reader.collect(table, ..)
    })?;
    let shown = |row: &indelible::Row| row.to_values().iter().map(ToString::to_string).collect();
    Ok(rows.iter().map(shown).collect())
}

fn check(image: &SimulatedWorld, method: Method, watch: &mut Watch) -> Result<(), String> {
    let mut before = None;
    for _ in 0..2 {
        let db = Database::open_on(SimulatedPlatform::new(image), &common::options(method, 2))
            .map_err(|error| format!("opening: {error}"))?;
        let found = content(&db).map_err(|error| error.to_string())?;
        let place = watch.allowed.iter().position(|allowed| *allowed == found);
        let place = place.ok_or_else(|| format!("found {found:?}"))?;
        if before.replace(place).is_some_and(|before| before != place) {
            return Err("two openings differ".to_owned());
        }
        watch.seen[place + 2 - watch.allowed.len()] += 1;
        let damage = db.verify().map_err(|error| error.to_string())?.damage;
        if let Some(first) = damage.first() {
            return Err(format!("verify: {first:?}"));
        }
    }
    Ok(())
}

fn observe(world: &SimulatedWorld, method: Method, watch: &Arc<Mutex<Watch>>) {
    let watch = Arc::clone(watch);
    let mut scratch = None;
    world.observe(move |world, point| {
        let mut watch = watch.lock().expect("one thread");
        if watch.failure.is_some() {
            return;
        }
        let look = |image: &_| check(image, method, &mut watch);
        match common::look_at_images(world, POINT_IMAGES, &mut scratch, look) {
            Ok(images) => watch.images += images,
            Err(error) => watch.failure = Some(format!("{point:?}: {error}")),
        }
    });
}

fn run(method: Method, disabled: Option<&str>) -> Watch {
    let world = SimulatedWorld::new(WorldOptions {
        seed: 1,
        ..WorldOptions::default()
    });
    let db = Database::create_on(SimulatedPlatform::new(&world), &common::options(method, 2))
        .expect("created");
    let people = db
        .create_table("people")
        .column("id", DataType::Int32)
        .column("name", DataType::Varchar { max: 20 })
        .nullable_column("note", DataType::Text)
        .primary_key(["id"])
        .index("by_name", ["name"])
        .create()
        .expect("the table is made");
    db.transaction(|t| {
        (0..ROWS).try_for_each(|id| {
            let note = (id % 3 == 0).then(|| "long ".repeat(60));
            t.insert(&people, (id, format!("name {id}"), note))
        })
    })
    .expect("the rows are inserted");
    let old = content(&db).expect("it is read");
    let new = old.iter().map(|row| {
        let [id, name, _] = row.as_slice() else {
            panic!("three columns");
        };
        vec![id.clone(), name.clone(), "7".to_owned()]
    });
    let watch = Arc::new(Mutex::new(Watch {
        allowed: vec![old.clone(), new.collect()],
        ..Watch::default()
    }));
    if let Some(site) = disabled {
        world.disable(site);
    }
    observe(&world, method, &watch);
    db.alter_table(&people)
        .change_type("id", DataType::Int64)
        .drop_column("note")
        .add_column(Column::new("team", DataType::Int16), 7_i16)
        .apply()
        .expect("the table is changed");
    watch.lock().expect("one thread").allowed.remove(0);
    world.mark(CrashPoint::Mark("acknowledged"));
    world.unobserve();
    std::mem::take(&mut *watch.lock().expect("one thread"))
}

#[test]
fn a_rewrite_is_atomic() {
    for method in Method::distinct().filter(|method| method.is_durable()) {
        let watch = run(method, None);
        println!("{}: {} images", method.name(), watch.images);
        assert!(
            watch.failure.is_none(),
            "{}: {:?}",
            method.name(),
            watch.failure
        );
        assert!(
            watch.seen.iter().all(|seen| *seen > 0),
            "{}: {:?}",
            method.name(),
            watch.seen
        );
    }
}

#[test]
fn rows_that_are_not_durable_before_the_drop_are_noticed() {
    let watch = run(Method::NvmInp, Some("undo.commit-record-fence"));
    assert!(watch.failure.is_some(), "nobody noticed the missing fence");
}
