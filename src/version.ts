/** That of the package: a constant, since a bundle has no package.json beside it. A test holds them equal. */
export const VERSION = '0.1.0'
