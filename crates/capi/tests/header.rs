//! Goal: the header that is checked in is the one that the code makes.
//!
//! Method: it is made again in memory and compared. With `INDELIBLE_WRITE_HEADER` set it is written
//! instead, which is how a change of the interface gets into the repository.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;

#[test]
fn the_header_is_that_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = [
        "code",
        "error",
        "database",
        "statement",
        "column",
        "arrow/mod",
    ];
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(root.join(format!("src/{source}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join("include/indelible.h");
    if std::env::var_os("INDELIBLE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == made,
        "{} is not that of the code; run this test with INDELIBLE_WRITE_HEADER=1",
        path.display()
    );
}
