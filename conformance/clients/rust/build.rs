//! Tells the program which version of lapin it is built with, from the manifest,
//! which pins it.

fn main() {
    println!("cargo:rerun-if-changed=Cargo.toml");
    let manifest = std::fs::read_to_string("Cargo.toml").expect("read Cargo.toml");
    let version = manifest
        .lines()
        .find(|line| line.starts_with("lapin "))
        .and_then(|line| line.split('"').nth(1))
        .expect("a pinned lapin in Cargo.toml")
        .trim_start_matches('=');
    println!("cargo:rustc-env=LAPIN_VERSION={version}");
}
