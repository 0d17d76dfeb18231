// Pointing at a line of the spec or of the source marks the lines of the other that belong to it.
for (const view of document.querySelectorAll(".sources")) {
  const lines = [...view.querySelectorAll(".line[data-spec]")];
  const mark = (number) => lines.forEach((line) => line.classList.toggle("linked", number !== null && line.dataset.spec === number));
  view.addEventListener("pointerover", (event) => {
    const line = event.target.closest(".line[data-spec]");
    mark(line === null ? null : line.dataset.spec);
  });
  view.addEventListener("click", (event) => {
    const line = event.target.closest(".listing:not(.emitted) .line[data-spec]");
    const first = line && view.querySelector(`.emitted .line[data-spec="${line.dataset.spec}"]`);
    if (first) first.scrollIntoView({ block: "nearest" });
  });
}
