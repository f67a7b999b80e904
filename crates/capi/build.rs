//! Gives the shared library its soname.
//!
//! The name has the version of the interface: a program that was linked with one version of it
//! refuses another at its start. `indelible_abi_version` returns the same number.

#![allow(clippy::print_stdout, reason = "Cargo reads the instructions there")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libindelible.so.1");
}
