/** A file or directory as the file API shows it (facts §9, and measured). */
export interface FileInfo {
  readonly Name: string
  readonly IsDir: boolean
  readonly Size: number
  readonly FileMode: string
  /** With parts of a second. */
  readonly ModTime: string
}

interface Entry {
  readonly directory: boolean
  readonly mode: string
  readonly content: string
  readonly modTime: string
}

const DIRECTORY = 'drwxrwxrwx'
const DIRECTORY_SIZE = 4096

/** The directory of one allocation: what is in it, and when it was written. */
export class AllocationFiles {
  readonly #id: string
  readonly #moment: () => string
  readonly #entries = new Map<string, Entry>()

  /** `moment`: no two writes have the same. */
  constructor(id: string, moment: () => string) {
    this.#id = id
    this.#moment = moment
    for (const path of ['/', '/alloc', '/alloc/data', '/alloc/logs', '/alloc/tmp']) this.directory(path)
  }

  directory(path: string): void {
    this.#put(path, { directory: true, mode: DIRECTORY, content: '' })
  }

  /** Writes anew, also when the content is the same; directories above come by themselves. */
  write(path: string, content: string, mode = '-rw-r--r--'): void {
    const clean = cleaned(path)
    if (clean === undefined || clean === '/') throw new Error(`no path in the allocation: ${path}`)
    const parts = clean.split('/').slice(1, -1)
    parts.forEach((_, at) => {
      const above = `/${parts.slice(0, at + 1).join('/')}`
      if (!this.#entries.has(above)) this.directory(above)
    })
    this.#put(clean, { directory: false, mode, content })
  }

  /** Only the time: the content stays. */
  touch(path: string): void {
    this.write(path, this.read(path) ?? '', this.#entries.get(cleaned(path) ?? '')?.mode)
  }

  remove(path: string): void {
    this.#entries.delete(cleaned(path) ?? '')
  }

  read(path: string): string | undefined {
    const entry = this.#entries.get(cleaned(path) ?? '')
    return entry === undefined || entry.directory ? undefined : entry.content
  }

  stat(path: string): FileInfo {
    const clean = this.#inside(path)
    const entry = this.#entries.get(clean)
    if (entry === undefined) throw new Error(`stat ${this.#host(clean)}: no such file or directory`)
    return this.#info(clean, entry)
  }

  list(path: string): FileInfo[] {
    const clean = this.#inside(path)
    const entry = this.#entries.get(clean)
    if (entry === undefined) throw new Error(`open ${this.#host(clean)}: no such file or directory`)
    if (!entry.directory) throw new Error(`open ${this.#host(clean)}: not a directory`)
    const below = clean === '/' ? '/' : `${clean}/`
    return [...this.#entries]
      .filter(([at]) => at !== '/' && at.startsWith(below) && !at.slice(below.length).includes('/'))
      .map(([at, one]) => this.#info(at, one))
      .sort((a, b) => (a.Name < b.Name ? -1 : 1))
  }

  /** What anybody with the right may read: never what is in `secrets/`. */
  cat(path: string): string {
    const info = this.stat(path)
    if (info.IsDir) throw new Error(`file ${JSON.stringify(path)} is a directory`)
    if (/^\/[^/]+\/(secrets|private)(\/|$)/.test(this.#inside(path))) {
      throw new Error(`Reading secret file prohibited: ${path}`)
    }
    return this.read(path) ?? ''
  }

  #put(path: string, entry: Omit<Entry, 'modTime'>): void {
    this.#entries.set(path, { ...entry, modTime: this.#moment() })
  }

  #inside(path: string): string {
    const clean = cleaned(path)
    if (clean === undefined) throw new Error('Path escapes the alloc directory')
    return clean
  }

  // Nomad says where on its host: nothing to pass on (facts §9).
  #host(path: string): string {
    return `/var/lib/nomad/alloc/${this.#id}${path === '/' ? '' : path}`
  }

  #info(path: string, { directory, mode, content, modTime }: Entry): FileInfo {
    const Name = path === '/' ? this.#id : path.slice(path.lastIndexOf('/') + 1)
    const Size = directory ? DIRECTORY_SIZE : Buffer.byteLength(content)
    return { Name, IsDir: directory, Size, FileMode: mode, ModTime: modTime }
  }
}

// Undefined: it leads out of the allocation.
function cleaned(path: string): string | undefined {
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '..') {
      if (parts.pop() === undefined) return undefined
    } else if (part !== '' && part !== '.') parts.push(part)
  }
  return `/${parts.join('/')}`
}
