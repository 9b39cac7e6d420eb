# The program that runs in the pods of a real cluster: one binary, no shell, not root.
#
#   docker build -t eventlab:dev .
#
# Bases are pinned by version. To pin them by digest as well, give what your registry shows for them:
#   --build-arg RUST=rust:1.89.0-bookworm@sha256:… --build-arg BASE=gcr.io/distroless/cc-debian12:nonroot@sha256:…
ARG RUST=rust:1.89.0-bookworm
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

FROM ${RUST} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock clippy.toml ./
COPY benches benches
COPY labs labs
COPY manifests manifests
COPY src src
COPY tests tests
RUN cargo build --release --locked --bin eventlab && strip target/release/eventlab

# Same Debian as the build: the binary uses its C library.
FROM ${BASE}
COPY --from=build /src/target/release/eventlab /eventlab
USER 65532:65532
ENTRYPOINT ["/eventlab"]
