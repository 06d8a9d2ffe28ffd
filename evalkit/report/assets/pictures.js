// Pictures in texts: a marker with a hash becomes an image where the page has its bytes or its file.
const pictures = (() => {
  const MARKER = /\[image (?:[\d,]+ k?B image\/(?:png|jpeg|gif|webp)|image\/url)(?: (?:low|high))? sha256:([0-9a-f]{64})\]/g;
  const SOURCE = /^(?:data:image\/(?:png|jpeg|gif|webp);base64,|images\/[0-9a-f]{64}\.(?:png|jpg|gif|webp)$)/;
  const brief = (marker) => marker.replace(/ sha256:[0-9a-f]{64}/, "");
  const short = (text) => text.replace(MARKER, brief);
  const image = (marker, source) => {
    const element = document.createElement("img");
    Object.assign(element, { alt: brief(marker), title: brief(marker), loading: "lazy", src: source });
    return element;
  };
  // Text from data only ever becomes a text node.
  const nodes = (text, sources) => {
    const found = [];
    let done = 0;
    for (const match of text.matchAll(MARKER)) {
      const known = Object.prototype.hasOwnProperty.call(sources, match[1]) && SOURCE.test(sources[match[1]]);
      found.push(text.slice(done, match.index), known ? image(match[0], sources[match[1]]) : brief(match[0]));
      done = match.index + match[0].length;
    }
    return [...found, text.slice(done)].filter((one) => one !== "");
  };
  return { short, nodes };
})();
