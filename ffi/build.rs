//! Builds the C++ that speaks to PyTorch: exceptions, hooks and the pool filter.

fn main() {
    let folder = "src/torch/cpp";
    println!("cargo::rerun-if-changed={folder}");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings_into_errors(true)
        .flag("-Wno-cast-function-type")
        .files(
            ["raise.cpp", "hooks.cpp", "filter.cpp", "version.cpp"]
                .map(|file| format!("{folder}/{file}")),
        )
        .compile("vramtape_torch");
}
