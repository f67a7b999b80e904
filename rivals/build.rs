//! Tells the program which commit it was built from, as the program `indelible` is told, and where
//! libpmemobj is.
//!
//! The library is looked for only if the feature asks for it; without it nothing outside of this
//! repository and the registry is needed beside a C++ compiler.

#[path = "../crates/cli/build.rs"]
mod commit;

fn main() {
    commit::main();
    if std::env::var_os("CARGO_FEATURE_PMEMOBJ").is_some() {
        println!("cargo::rustc-link-lib=dylib=pmemobj");
    }
}
